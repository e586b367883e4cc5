//! Accepting connections.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::{Net, SimStream};
use crate::world::Fence;

/// Connections that the kernel has established and nobody has accepted yet.
pub(super) struct Backlog {
    pub(super) fence: Fence,
    pub(super) ready: VecDeque<(u64, Arc<str>)>,
    pub(super) waker: Option<Waker>,
}

/// A bound port. Dropping it closes the port and resets what was not accepted.
#[derive(Debug)]
pub struct SimListener {
    net: Net,
    fence: Fence,
    port: u16,
}

impl Net {
    pub(crate) fn listen(&self, fence: &Fence, port: u16) -> io::Result<SimListener> {
        if !fence.is_up() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut state = self.lock();
        let key = (fence.process().clone(), port);
        if state.listeners.contains_key(&key) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let backlog = Backlog { fence: fence.clone(), ready: VecDeque::new(), waker: None };
        state.listeners.insert(key, backlog);
        Ok(SimListener { net: self.clone(), fence: fence.clone(), port })
    }
}

impl SimListener {
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next connection, in the order of arrival. [`SimStream::peer`] names the other side.
    ///
    /// # Errors
    /// `BrokenPipe` once the process is dead.
    pub async fn accept(&self) -> io::Result<SimStream> {
        let key = (self.fence.process().clone(), self.port);
        poll_fn(|cx| {
            if !self.fence.is_up() {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let mut state = self.net.lock();
            let Some(backlog) = state.listeners.get_mut(&key) else {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            };
            match backlog.ready.pop_front() {
                None => {
                    backlog.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
                Some((id, peer)) => {
                    let Some(conn) = state.conns.get_mut(&id) else {
                        // Its client went away and nothing of it is left: try the next.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    };
                    conn.ends[1].accepted = true;
                    let label = conn.label.clone();
                    drop(state);
                    let (net, fence) = (self.net.clone(), self.fence.clone());
                    Poll::Ready(Ok(SimStream { net, fence, id, end: 1, label, peer }))
                }
            }
        })
        .await
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        if !self.fence.is_up() {
            return;
        }
        let backlog = {
            let key = (self.fence.process().clone(), self.port);
            self.net.lock().listeners.remove(&key)
        };
        for (id, _) in backlog.iter().flat_map(|backlog| &backlog.ready) {
            self.net.with_conn(*id, |wire, conn| wire.close(conn, 1));
        }
    }
}
