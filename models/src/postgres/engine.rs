//! What all connections share: the store, the locks, and who is connected.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use durasim_sim::Chance;
use tokio::sync::Notify;

use super::PostgresSettings;
use super::clock::Clock;
use super::locks::{Locks, Pid};
use super::store::Store;

pub struct Engine {
    pub settings: PostgresSettings,
    pub clock: Clock,
    /// Where latencies are drawn from; without one they are as low as the settings allow.
    pub chance: OnceLock<Chance>,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    pub store: Store,
    pub locks: Locks,
    pub backends: BTreeMap<Pid, Backend>,
    /// Which life of the server this is; a session of an earlier one touches nothing.
    pub life: u64,
    /// Statements that are being executed, by all sessions.
    pub running: usize,
    last_pid: Pid,
}

/// One connection, as others see it.
pub struct Backend {
    /// What a CancelRequest has to know.
    pub secret: i32,
    pub signal: Arc<Signal>,
}

/// What somebody else wants of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Cancel,
    /// An administrator ends the connection, or the server shuts down.
    Terminate,
    /// The server is gone without a word.
    Crash,
}

/// How wishes reach a session.
#[derive(Default)]
pub struct Signal {
    cancel: Mutex<Option<Wish>>,
    notify: Notify,
}

impl Signal {
    fn slot(&self) -> MutexGuard<'_, Option<Wish>> {
        self.cancel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn send(&self, wish: Wish) {
        let mut slot = self.slot();
        // The end of a connection is not taken back by a cancel.
        if slot.is_none_or(|known| known == Wish::Cancel) {
            *slot = Some(wish);
        }
        drop(slot);
        self.notify.notify_one();
    }

    /// A cancel that came while nothing was running is void.
    pub fn forget_cancel(&self) {
        let mut slot = self.slot();
        if *slot == Some(Wish::Cancel) {
            *slot = None;
        }
    }

    fn take(&self, idle: bool) -> Option<Wish> {
        let mut slot = self.slot();
        match *slot {
            Some(Wish::Cancel) if idle => {
                *slot = None;
                None
            }
            Some(Wish::Cancel) => slot.take(),
            lasting => lasting,
        }
    }

    /// The next wish; of an idle session only those for its end.
    pub async fn wish(&self, idle: bool) -> Wish {
        loop {
            if let Some(wish) = self.take(idle) {
                return wish;
            }
            self.notify.notified().await;
        }
    }
}

impl Engine {
    pub fn new(settings: PostgresSettings) -> Engine {
        let (clock, chance) = (Clock::default(), OnceLock::new());
        Engine { settings, clock, chance, state: Mutex::default() }
    }

    /// Never across an await.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One draw of a latency for an actor.
    pub fn latency(&self, label: &str, actor: &str, [low, high]: [u64; 2]) -> Duration {
        let [low, high] = [low, high].map(Duration::from_micros);
        match self.chance.get() {
            Some(chance) if !high.is_zero() => chance.stream(label, actor).duration(low, high),
            _ => low,
        }
    }

    /// Begins the next life: what was not committed is gone, and so is every connection.
    pub fn crash(&self) {
        let now = self.clock.now();
        let mut state = self.lock();
        state.life += 1;
        for backend in std::mem::take(&mut state.backends).into_values() {
            backend.signal.send(Wish::Crash);
        }
        state.locks = Locks::default();
        state.running = 0;
        let delay = Duration::from_millis(self.settings.wal_writer_delay_ms);
        state.store.xacts.crash(now, delay);
        state.store.shape += 1;
    }
}

impl State {
    /// Lets a connection in, or not: 53300 is the caller's.
    pub fn admit(&mut self, limit: usize) -> Option<(Pid, i32, Arc<Signal>)> {
        if self.backends.len() >= limit {
            return None;
        }
        self.last_pid += 1;
        let pid = self.last_pid;
        let secret = pid.wrapping_mul(0x5bd1_e995).wrapping_add(0x1234_5677);
        let signal = Arc::new(Signal::default());
        self.backends.insert(pid, Backend { secret, signal: signal.clone() });
        Some((pid, secret, signal))
    }
}
