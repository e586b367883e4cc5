//! TCP between processes, as Linux shows it to them.
//!
//! It has what the stock simulator's lacks: a FIN takes the link's latency and does not cross a
//! partition, a peer can fall silent (half-open), the window is finite, readers see resets, and a
//! socket can be closed in one direction. A flush does nothing, as data is on the wire once written.
//!
//! What it promises to bring: every byte, in order, once, unless an end is reset or silent. What it
//! does not model: loss and reordering below TCP (they show as latency), congestion, keep-alive, and
//! the retransmission limit (Linux gives a silent peer up after a quarter of an hour).

mod conn;
mod connect;
mod faults;
mod link;
mod listener;
mod pipe;
mod stream;

pub use link::LinkSpec;
pub use listener::SimListener;
pub use stream::SimStream;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use crate::lock::lock;
use crate::world::{Clock, Fence};
use crate::{Chance, Trace};
use conn::{Conn, Wire};
use link::{Links, Name};
use listener::Backlog;

/// The network of a world; cloning gives another handle to the same network.
#[derive(Clone)]
pub struct Net {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Clock,
    chance: Chance,
    trace: Trace,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    links: Links,
    processes: BTreeMap<Name, Peer>,
    listeners: BTreeMap<(Name, u16), Backlog>,
    conns: BTreeMap<u64, Conn>,
    next_conn: u64,
    /// How many connections each (client, target, port) has tried, for their labels.
    tried: BTreeMap<(Name, Name, u16), u32>,
    /// Those who wait for a link or a host to come back.
    waiting: Vec<Waker>,
}

struct Peer {
    host: Name,
    /// The power of its host is off.
    off: bool,
}

impl Net {
    pub(crate) fn new(clock: Clock, chance: Chance, trace: Trace) -> Self {
        Net { inner: Arc::new(Inner { clock, chance, trace, state: Mutex::default() }) }
    }

    pub(crate) fn register(&self, process: &Name, host: &Name) {
        let peer = Peer { host: host.clone(), off: false };
        self.lock().processes.insert(process.clone(), peer);
    }

    /// The latency of every link that has none of its own.
    pub fn set_default_link(&self, spec: LinkSpec) {
        self.lock().links.set_default(spec);
    }

    /// The latency between two processes, both ways. Applies to what is sent from now on.
    pub fn set_link(&self, a: &str, b: &str, spec: LinkSpec) {
        self.lock().links.set(a, b, spec);
    }

    /// How many connections have an open end.
    pub fn connections(&self) -> usize {
        self.lock().conns.len()
    }

    /// The host is up (again): it answers what it does not know.
    pub(crate) fn started(&self, process: &Name) {
        let mut state = self.lock();
        let was_off = state.processes.get_mut(process).is_some_and(|p| std::mem::take(&mut p.off));
        if !was_off {
            return;
        }
        self.for_each(&mut state, |wire, conn| {
            for end in 0..2 {
                let vanished = conn.ends[end].state == conn::EndState::Vanished;
                if vanished && conn.process(end) == process {
                    wire.forget(conn, end);
                }
            }
        });
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The kernel closes every socket of a dead process.
    pub(crate) fn close_all(&self, fence: &Fence) {
        let mut state = self.lock();
        let backlogs = take_backlogs(&mut state, fence);
        self.for_each(&mut state, |wire, conn| {
            for end in 0..2 {
                if conn.ends[end].fence.same(fence) {
                    wire.close(conn, end);
                }
            }
        });
        drop(state);
        drop(backlogs);
    }

    /// The power of that process's host is off: nothing is closed, nothing answers.
    pub(crate) fn vanish(&self, fence: &Fence) {
        let mut state = self.lock();
        let backlogs = take_backlogs(&mut state, fence);
        if let Some(peer) = state.processes.get_mut(fence.process()) {
            peer.off = true;
        }
        self.for_each(&mut state, |wire, conn| {
            for end in 0..2 {
                if conn.ends[end].fence.same(fence) {
                    wire.vanish(conn, end);
                }
            }
        });
        drop(state);
        drop(backlogs);
    }

    /// At the end of a run: lets go of every waker, and with it of every task.
    pub(crate) fn clear(&self) {
        let old = std::mem::take(&mut *self.lock());
        drop(old);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    /// Applies `f` to every connection, oldest first, and removes those that are over.
    fn for_each(&self, state: &mut State, mut f: impl FnMut(&mut Wire<'_>, &mut Conn)) {
        let State { links, conns, .. } = state;
        let mut wire = Wire { clock: &self.inner.clock, trace: &self.inner.trace, links };
        conns.retain(|_, conn| {
            f(&mut wire, conn);
            !conn.is_over()
        });
    }

    /// Applies `f` to one connection, if it is not over, and removes it if it is over then.
    fn with_conn<T>(&self, id: u64, f: impl FnOnce(&mut Wire<'_>, &mut Conn) -> T) -> Option<T> {
        let mut state = self.lock();
        let State { links, conns, .. } = &mut *state;
        let conn = conns.get_mut(&id)?;
        let mut wire = Wire { clock: &self.inner.clock, trace: &self.inner.trace, links };
        let result = f(&mut wire, conn);
        let over = if conn.is_over() { conns.remove(&id) } else { None };
        // Its wakers are dropped outside the lock.
        drop(state);
        drop(over);
        Some(result)
    }
}

fn take_backlogs(state: &mut State, fence: &Fence) -> Vec<Backlog> {
    let keys: Vec<_> = (state.listeners.iter())
        .filter(|(_, backlog)| backlog.fence.same(fence))
        .map(|(key, _)| key.clone())
        .collect();
    keys.iter().filter_map(|key| state.listeners.remove(key)).collect()
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").field("connections", &self.connections()).finish()
    }
}
