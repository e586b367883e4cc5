//! Sleeping and deadlines of the library itself.

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

/// Time as the library sees it. In a simulated world it is virtual.
pub trait Clock: Send + Sync {
    /// Wall-clock time, used for checkpoint timestamps and ids (resolution: 100 ns or better).
    fn now(&self) -> SystemTime;
    /// Completes after `duration`. Dropping it cancels the timer.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// tokio's timer and the operating system's clock.
pub struct TokioClock;

impl Clock for TokioClock {
    #[allow(clippy::disallowed_methods)] // this is the door
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
