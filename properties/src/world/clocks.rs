//! Clocks that are wrong: each server process may be ahead of the world or behind it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// By process, how many milliseconds its clock is ahead; it stays so across restarts. Cloning gives
/// another handle to the same clocks.
#[derive(Clone, Default)]
pub(super) struct Clocks(Arc<Mutex<BTreeMap<String, i64>>>);

impl Clocks {
    /// Moves the clock of a process, forward or back.
    pub fn step(&self, process: &str, by_ms: i64) {
        let mut ahead = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead.entry(process.to_owned()).or_default() += by_ms;
    }

    /// What the clock of a process shows at the true time `now`, since 1970.
    pub fn show(&self, process: &str, now: Duration) -> SystemTime {
        let ahead = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = ahead.get(process).copied().unwrap_or_default();
        let by = Duration::from_millis(ahead.unsigned_abs());
        match ahead < 0 {
            true => SystemTime::UNIX_EPOCH + now.saturating_sub(by),
            false => SystemTime::UNIX_EPOCH + now + by,
        }
    }
}
