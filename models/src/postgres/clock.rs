//! The server's clock: tokio's, or that of the world.

use std::time::Duration;

use super::types::EPOCH_2000;

/// What the calendar shows when the clock starts, where no world tells: the beginning of 2026.
#[cfg(not(madsim))]
const START: Duration = Duration::from_secs(1_767_225_600);

#[derive(Debug, Default)]
pub struct Clock {
    #[cfg(not(madsim))]
    start: std::sync::OnceLock<tokio::time::Instant>,
}

impl Clock {
    /// Since the clock was first looked at, or the world began.
    pub fn now(&self) -> Duration {
        #[cfg(madsim)]
        return durasim_sim::World::current().now();
        #[cfg(not(madsim))]
        self.start.get_or_init(tokio::time::Instant::now).elapsed()
    }

    /// The calendar time, as SQL's `now()` has it: microseconds since 2000.
    pub fn timestamp(&self) -> i64 {
        #[cfg(madsim)]
        let unix = durasim_sim::World::current().unix_time();
        #[cfg(not(madsim))]
        let unix = START + self.now();
        i64::try_from(unix.as_micros()).expect("the year is far from 294276") - EPOCH_2000
    }

    /// When so much time will have passed; never, if that is no time.
    pub fn after(&self, limit: Option<Duration>) -> Option<Duration> {
        limit.map(|limit| self.now() + limit)
    }

    /// Sleeps until then; for ever, if that is never.
    pub async fn sleep_until(&self, at: Option<Duration>) {
        match at {
            Some(at) => pause(at.saturating_sub(self.now())).await,
            None => std::future::pending().await,
        }
    }
}

/// Sleeps; in the world without the floor of a millisecond that tokio's sleep has.
pub async fn pause(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    #[cfg(madsim)]
    durasim_sim::World::current().sleep(duration).await;
    #[cfg(not(madsim))]
    tokio::time::sleep(duration).await;
}
