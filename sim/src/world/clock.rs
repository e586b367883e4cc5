//! Virtual time, to the nanosecond.
//!
//! The simulator's own `sleep` never takes less than a millisecond, as tokio's does. Wires and disks
//! are faster than that, so waits of the world set their deadline afterwards, which has no floor.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use madsim::time::{Sleep, TimeHandle};

#[derive(Clone)]
pub(crate) struct Clock {
    time: TimeHandle,
    start: Duration,
}

impl Clock {
    /// Starts now; only inside a simulation.
    pub(crate) fn start() -> Self {
        let time = TimeHandle::current();
        let start = time.elapsed();
        Clock { time, start }
    }

    /// Virtual time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.time.elapsed() - self.start
    }

    /// The calendar time that std's clock shows inside the simulation, since 1970.
    pub(crate) fn unix(&self) -> Duration {
        let now: SystemTime = self.time.now_time();
        now.duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    pub(crate) fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    pub(crate) fn sleep_until(&self, at: Duration) -> Sleep {
        let deadline = self.time.now_instant() + at.saturating_sub(self.now());
        let mut sleep = self.time.sleep(Duration::ZERO);
        Pin::new(&mut sleep).reset(deadline);
        sleep
    }

    /// Wakes at that instant, or now if it has passed. Such a timer cannot be taken back.
    ///
    /// Never call this from inside a waker: wakers run under the simulator's timer lock.
    pub(crate) fn wake_at(&self, at: Duration, waker: &Waker) {
        let mut sleep = self.sleep_until(at);
        if Pin::new(&mut sleep).poll(&mut Context::from_waker(waker)).is_ready() {
            waker.wake_by_ref();
        }
    }
}
