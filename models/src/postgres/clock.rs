//! The server's clock: tokio's, which is the simulated one in a simulated build.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;

use super::types::EPOCH_2000;

/// What the calendar shows when the clock starts, where no world tells: the beginning of 2026.
#[cfg(not(madsim))]
const START: Duration = Duration::from_secs(1_767_225_600);

#[derive(Debug, Default)]
pub struct Clock {
    start: OnceLock<Instant>,
}

impl Clock {
    /// Since the clock was first looked at.
    pub fn now(&self) -> Duration {
        self.start.get_or_init(Instant::now).elapsed()
    }

    /// The calendar time, as SQL's `now()` has it: microseconds since 2000.
    pub fn timestamp(&self) -> i64 {
        let unix = self.unix();
        i64::try_from(unix.as_micros()).expect("the year is far from 294276") - EPOCH_2000
    }

    #[cfg(madsim)]
    fn unix(&self) -> Duration {
        durasim_sim::World::current().unix_time()
    }

    #[cfg(not(madsim))]
    fn unix(&self) -> Duration {
        START + self.now()
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
