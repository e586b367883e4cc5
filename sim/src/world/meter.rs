//! Counts that bound a run: tasks alive, and polls so far.
//!
//! A virtual-time limit alone does not end a livelock in reasonable real time: a task that only
//! yields advances the clock by less than 100 ns a poll.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use crate::lock::lock;

pub(crate) struct Meter {
    alive: AtomicU64,
    polls: AtomicU64,
    limit: u64,
    supervisor: Mutex<Option<Waker>>,
}

impl Meter {
    pub(crate) fn new(limit: u64) -> Self {
        let supervisor = Mutex::new(None);
        Meter { alive: AtomicU64::new(0), polls: AtomicU64::new(0), limit, supervisor }
    }

    pub(super) fn task_born(&self) {
        self.alive.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn task_died(&self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn polled(&self) {
        if self.polls.fetch_add(1, Ordering::Relaxed) == self.limit
            && let Some(waker) = lock(&self.supervisor).take()
        {
            waker.wake();
        }
    }

    /// Tasks spawned through the world whose futures have not been dropped.
    pub(crate) fn alive(&self) -> u64 {
        self.alive.load(Ordering::Relaxed)
    }

    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    pub(crate) fn exhausted(&self) -> bool {
        self.polls() > self.limit
    }

    /// Whom to wake when the limit is passed.
    pub(crate) fn watch(&self, waker: &Waker) {
        *lock(&self.supervisor) = Some(waker.clone());
    }
}
