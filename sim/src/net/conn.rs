//! A connection: two ends and a pipe each way, with Linux's rules for closing.
//!
//! - Closing with nothing unread sends a FIN; closing with unread bytes sends a reset.
//! - Bytes that reach an end which is closed for good are answered with a reset.
//! - A reset that meets a partition is lost, for nobody sends it again; a FIN is.
//! - An end whose power failed neither sends nor answers, until its host is up again and answers
//!   what it does not know with a reset.

use std::sync::Arc;
use std::time::Duration;

use super::link::{Links, Name};
use super::pipe::{Body, Pipe};
use crate::trace::{Labels, Trace, Value};
use crate::world::{Clock, Fence};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EndState {
    Open,
    /// Closed for good; its kernel is up and answers.
    Gone,
    /// Its kernel is gone too.
    Vanished,
}

pub(super) struct End {
    pub(super) fence: Fence,
    pub(super) state: EndState,
    /// A reset has been reported to its owner.
    pub(super) reset_told: bool,
    /// Its owner has taken it from the listener (or has made the connection).
    pub(super) accepted: bool,
}

pub(super) struct Conn {
    pub(super) label: Arc<str>,
    pub(super) ends: [End; 2],
    /// `pipes[i]` carries what `ends[i]` sends.
    pub(super) pipes: [Pipe; 2],
}

impl Conn {
    pub(super) fn process(&self, end: usize) -> &Name {
        self.ends[end].fence.process()
    }

    pub(super) fn is_over(&self) -> bool {
        self.ends.iter().all(|end| end.state != EndState::Open)
    }

    /// The end has been told, or could have been told, that the connection was reset.
    pub(super) fn reset_seen(&self, end: usize, now: Duration) -> bool {
        self.pipes[1 - end].reset_at.is_some_and(|at| at <= now)
    }
}

pub(super) struct Wire<'a> {
    pub(super) clock: &'a Clock,
    pub(super) trace: &'a Trace,
    pub(super) links: &'a Links,
}

impl Wire<'_> {
    pub(super) fn note(&self, name: &'static str, conn: &Conn, end: usize) {
        let fields = vec![("conn", Value::from(&conn.label))];
        let process = conn.process(end).clone();
        self.trace.push(self.clock.now(), process, Labels::none(), name, fields);
    }

    /// Sends from that end.
    pub(super) fn send(&mut self, conn: &mut Conn, end: usize, body: Body) {
        let (from, to) = (conn.process(end).clone(), conn.process(1 - end).clone());
        let link = self.links.open_spec(&from, &to);
        let is_data = matches!(body, Body::Data(..));
        let arrives = conn.pipes[end].push(self.clock, self.clock.now(), link, body);
        if conn.ends[1 - end].state == EndState::Gone
            && is_data
            && let Some(at) = arrives
        {
            self.reset(conn, end, at);
        }
    }

    /// The peer's kernel answers `end` with a reset that leaves at `from`.
    pub(super) fn reset(&mut self, conn: &mut Conn, end: usize, from: Duration) {
        let (peer, to) = (conn.process(1 - end), conn.process(end));
        let Some(spec) = self.links.open_spec(peer, to) else { return };
        let pipe = &mut conn.pipes[1 - end];
        let at = from + pipe.travel(spec);
        pipe.push_reset(self.clock, at);
        // Its writer waits for room that will never come.
        if let Some(writer) = &conn.pipes[end].writer {
            self.clock.wake_at(pipe_reset_at(&conn.pipes[1 - end]), writer);
        }
    }

    pub(super) fn fin(&mut self, conn: &mut Conn, end: usize) {
        if !std::mem::replace(&mut conn.pipes[end].fin_sent, true) {
            self.note("net.fin", conn, end);
            self.send(conn, end, Body::Fin);
        }
    }

    /// The owner has dropped its end, or the kernel closes it for a dead process.
    pub(super) fn close(&mut self, conn: &mut Conn, end: usize) {
        if conn.ends[end].state != EndState::Open {
            return;
        }
        let now = self.clock.now();
        conn.ends[end].state = EndState::Gone;
        if conn.reset_seen(end, now) {
            return;
        }
        let incoming = &conn.pipes[1 - end];
        if incoming.has_unread(now) || !conn.ends[end].accepted {
            self.note("net.reset", conn, end);
            self.reset(conn, 1 - end, now);
            return;
        }
        let on_the_wire = incoming.next_data();
        self.fin(conn, end);
        if let Some(at) = on_the_wire {
            self.reset(conn, 1 - end, at);
        }
    }

    /// The power of that end's host failed.
    pub(super) fn vanish(&mut self, conn: &mut Conn, end: usize) {
        if conn.ends[end].state == EndState::Open {
            self.note("net.silent", conn, end);
        }
        conn.ends[end].state = EndState::Vanished;
    }

    /// The host of that end is up again and knows nothing of this connection. What its peer has
    /// sent meanwhile is sent again, and answered.
    pub(super) fn forget(&mut self, conn: &mut Conn, end: usize) {
        conn.ends[end].state = EndState::Gone;
        let now = self.clock.now();
        conn.pipes[1 - end].room(now);
        if conn.pipes[1 - end].outstanding > 0 || conn.pipes[1 - end].fin_sent {
            let (peer, here) = (conn.process(1 - end), conn.process(end));
            if let Some(spec) = self.links.open_spec(peer, here) {
                let at = now + conn.pipes[1 - end].travel(spec);
                self.reset(conn, 1 - end, at);
            }
        }
    }
}

fn pipe_reset_at(pipe: &Pipe) -> Duration {
    pipe.reset_at.unwrap_or_default()
}
