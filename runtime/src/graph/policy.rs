//! When a failed node is tried again.

use std::time::Duration;

use super::NodeError;
use super::python_errors::is_a;

/// When and how often a failed node is tried again. The defaults are LangGraph's.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// Wait before the second attempt.
    pub initial_interval: Duration,
    /// Each further wait is this many times the one before.
    pub backoff_factor: f64,
    pub max_interval: Duration,
    /// Attempts in all, the first one included.
    pub max_attempts: u32,
    /// Adds up to a second to each wait, drawn from the run's own entropy.
    pub jitter: bool,
    pub retry_on: RetryOn,
}

/// Which errors are worth another attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryOn {
    /// As LangGraph decides: connection errors and errors that no built-in class of Python covers,
    /// but not those that say that the program is wrong.
    Default,
    /// Errors of these classes and of those derived from them, by name.
    Classes(Vec<String>),
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            initial_interval: Duration::from_millis(500),
            backoff_factor: 2.0,
            max_interval: Duration::from_secs(128),
            max_attempts: 3,
            jitter: true,
            retry_on: RetryOn::Default,
        }
    }
}

impl RetryPolicy {
    pub(crate) fn covers(&self, error: &NodeError) -> bool {
        let NodeError::Failed { kind, .. } = error else { return false };
        match &self.retry_on {
            RetryOn::Classes(classes) => classes.iter().any(|class| is_a(kind, class)),
            RetryOn::Default => {
                const HOPELESS: [&str; 11] = [
                    "ValueError",
                    "TypeError",
                    "ArithmeticError",
                    "ImportError",
                    "LookupError",
                    "NameError",
                    "SyntaxError",
                    "RuntimeError",
                    "ReferenceError",
                    "StopIteration",
                    "StopAsyncIteration",
                ];
                is_a(kind, "ConnectionError")
                    || !(is_a(kind, "OSError") || HOPELESS.iter().any(|class| is_a(kind, class)))
            }
        }
    }

    /// The wait after the `failed`-th failure, without jitter.
    pub(crate) fn interval(&self, failed: u32) -> Duration {
        let factor = self.backoff_factor.powi(failed.saturating_sub(1) as i32);
        let seconds = self.initial_interval.as_secs_f64() * factor;
        Duration::try_from_secs_f64(seconds)
            .map_or(self.max_interval, |wait| wait.min(self.max_interval))
    }
}
