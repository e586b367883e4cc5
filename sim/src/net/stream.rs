//! One end of a connection, as hyper and others see it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Net;
use super::conn::{Conn, Wire};
use super::pipe::Body;
use crate::world::Fence;

/// A connected socket. Dropping it closes it, by a FIN or, with bytes unread, by a reset.
#[derive(Debug)]
pub struct SimStream {
    pub(super) net: Net,
    pub(super) fence: Fence,
    pub(super) id: u64,
    /// 0 is who connected, 1 who accepted.
    pub(super) end: usize,
    pub(super) label: Arc<str>,
    pub(super) peer: Arc<str>,
}

impl SimStream {
    /// The process at the other end.
    pub fn peer(&self) -> &Arc<str> {
        &self.peer
    }

    /// The connection's name in the trace.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    fn with<T>(
        &self,
        f: impl FnOnce(&mut Wire<'_>, &mut Conn, usize) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !self.fence.is_up() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let done = self.net.with_conn(self.id, |wire, conn| f(wire, conn, self.end));
        done.unwrap_or_else(|| Poll::Ready(Err(io::ErrorKind::NotConnected.into())))
    }
}

/// The first call after a reset reports it; later writes find a broken pipe.
fn told(conn: &mut Conn, end: usize) -> io::Error {
    match std::mem::replace(&mut conn.ends[end].reset_told, true) {
        false => io::ErrorKind::ConnectionReset.into(),
        true => io::ErrorKind::BrokenPipe.into(),
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|wire, conn, end| {
            let now = wire.clock.now();
            let incoming = &mut conn.pipes[1 - end];
            let mut read = 0;
            while buf.remaining() > 0 {
                let Some(segment) = incoming.queue.front_mut() else { break };
                if segment.at.is_none_or(|at| at > now) {
                    break;
                }
                match &mut segment.body {
                    Body::Data(bytes, done) => {
                        let n = buf.remaining().min(bytes.len() - *done);
                        buf.put_slice(&bytes[*done..*done + n]);
                        *done += n;
                        read += n;
                        if *done == bytes.len() {
                            incoming.queue.pop_front();
                        }
                    }
                    // Stays in the queue: every later read finds the end again.
                    Body::Fin => match read {
                        0 => return Poll::Ready(Ok(())),
                        _ => break,
                    },
                    Body::Reset if read > 0 => break,
                    Body::Reset => {
                        conn.ends[end].reset_told = true;
                        return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                    }
                }
            }
            if read > 0 {
                let (me, peer) = (conn.process(end).clone(), conn.process(1 - end).clone());
                let back = wire.links.open_spec(&me, &peer).map(|spec| now + spec.min);
                conn.pipes[1 - end].acknowledge(wire.clock, back, read);
                return Poll::Ready(Ok(()));
            }
            if buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            incoming.park_reader(wire.clock, cx.waker());
            Poll::Pending
        })
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|wire, conn, end| {
            let now = wire.clock.now();
            if conn.reset_seen(end, now) {
                return Poll::Ready(Err(told(conn, end)));
            }
            if conn.pipes[end].fin_sent {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if bytes.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let n = conn.pipes[end].room(now).min(bytes.len());
            if n == 0 {
                conn.pipes[end].park_writer(wire.clock, cx.waker());
                if let Some(at) = conn.pipes[1 - end].reset_at {
                    wire.clock.wake_at(at, cx.waker());
                }
                return Poll::Pending;
            }
            wire.send(conn, end, Body::Data(bytes[..n].to_vec(), 0));
            Poll::Ready(Ok(n))
        })
    }

    /// Nothing is buffered on this side of the wire. (Sending an empty message here, as the stock
    /// simulator does, makes two hyper ends wake each other forever.)
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Half-close: sends a FIN; reading goes on.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|wire, conn, end| {
            if conn.reset_seen(end, wire.clock.now()) {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            }
            wire.fin(conn, end);
            Poll::Ready(Ok(()))
        })
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        // A dead process's sockets have been closed by its kernel; its destructors reach nothing.
        if self.fence.is_up() {
            self.net.with_conn(self.id, |wire, conn| wire.close(conn, self.end));
        }
    }
}
