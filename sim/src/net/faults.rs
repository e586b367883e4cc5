//! What can go wrong on the wire: partitions, silence, resets.
//!
//! TCP survives a partition: what it held back is sent again once the wire is mended, here at once
//! (a real stack backs off, which shows as latency). It does not survive a reset, and it cannot tell
//! silence from a slow peer.

use super::Net;
use super::conn::{Conn, EndState, Wire};
use super::link::Name;

impl Net {
    /// Packets between the two are lost, both ways, until [`heal`](Net::heal).
    pub fn partition(&self, a: &str, b: &str) {
        self.lock().links.cut(a, b);
        self.lock().links.cut(b, a);
        self.hold();
    }

    /// Packets from the first to the second are lost; the other way is fine.
    pub fn partition_one_way(&self, from: &str, to: &str) {
        self.lock().links.cut(from, to);
        self.hold();
    }

    /// Ends every partition between the two.
    pub fn heal(&self, a: &str, b: &str) {
        self.lock().links.mend(a, b);
        self.release();
    }

    /// Nothing from or to this process arrives any more: its connections are half-open.
    pub fn silence(&self, process: &str) {
        self.lock().links.set_silent(process, true);
        let mut state = self.lock();
        self.for_each(&mut state, |wire, conn| {
            if let Some(end) = end_of(conn, process) {
                wire.note("net.silent", conn, end);
            }
        });
        drop(state);
        self.hold();
    }

    /// Ends [`silence`](Net::silence).
    pub fn unsilence(&self, process: &str) {
        self.lock().links.set_silent(process, false);
        self.release();
    }

    /// Resets every connection of this process, at both ends, as a middlebox does.
    pub fn reset(&self, process: &str) {
        let mut state = self.lock();
        self.for_each(&mut state, |wire, conn| {
            let Some(end) = end_of(conn, process) else { return };
            wire.note("net.reset", conn, end);
            let now = wire.clock.now();
            wire.reset(conn, end, now);
            wire.reset(conn, 1 - end, now);
        });
    }

    fn hold(&self) {
        let mut state = self.lock();
        self.for_each(&mut state, |wire, conn| {
            for end in 0..2 {
                let (from, to) = route(conn, end);
                if !wire.links.is_up(&from, &to) {
                    let now = wire.clock.now();
                    conn.pipes[end].hold(now);
                    conn.pipes[1 - end].hold_credits(now);
                }
            }
        });
    }

    fn release(&self) {
        let mut state = self.lock();
        self.for_each(&mut state, |wire, conn| {
            for end in 0..2 {
                release_direction(wire, conn, end);
            }
        });
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(std::task::Waker::wake);
    }
}

fn release_direction(wire: &mut Wire<'_>, conn: &mut Conn, end: usize) {
    let (from, to) = route(conn, end);
    let Some(spec) = wire.links.open_spec(&from, &to) else { return };
    conn.pipes[end].release(wire.clock, spec);
    conn.pipes[1 - end].release_credits(wire.clock, spec.min);
    // What now arrives at a closed end is answered.
    if conn.ends[1 - end].state == EndState::Gone
        && let Some(at) = conn.pipes[end].next_data()
    {
        let at = at.max(wire.clock.now());
        wire.reset(conn, end, at);
    }
}

fn route(conn: &Conn, end: usize) -> (Name, Name) {
    (conn.process(end).clone(), conn.process(1 - end).clone())
}

fn end_of(conn: &Conn, process: &str) -> Option<usize> {
    (0..2).find(|&end| &**conn.process(end) == process)
}
