//! Attempts that have a limit.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::doors::Clock;
use crate::graph::{NodeError, TimedAttempt, TimeoutPolicy};

/// Runs one attempt of `node` under the limits of `policy`. A result that is there when a limit is
/// reached counts; when both limits are reached, the one of the whole attempt does. The error is that
/// of a limit.
pub(super) async fn within<T>(
    clock: &dyn Clock,
    node: &str,
    policy: &TimeoutPolicy,
    attempt: &Arc<TimedAttempt>,
    running: impl Future<Output = T>,
) -> Result<T, NodeError> {
    let began = clock.now();
    let mut running = pin!(running);
    // Dropped before `running`: what the node's destructors do comes too late.
    let closing = Closing(attempt);
    let mut run = policy.run.map(|limit| clock.sleep(limit));
    let mut idle = policy.idle.map(|limit| clock.sleep(limit));
    let limit = std::future::poll_fn(|cx| {
        if let Poll::Ready(result) = running.as_mut().poll(cx) {
            return Poll::Ready(Ok(result));
        }
        let has_progressed = attempt.watch(cx);
        if run.as_mut().is_some_and(|limit| limit.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(Err("run"));
        }
        if has_progressed {
            idle = policy.idle.map(|limit| clock.sleep(limit));
        }
        if idle.as_mut().is_some_and(|limit| limit.as_mut().poll(cx).is_ready()) {
            return Poll::Ready(Err("idle"));
        }
        Poll::Pending
    })
    .await;
    drop(closing);
    limit.map_err(|limit| {
        let elapsed = clock.now().duration_since(began).unwrap_or_default();
        exceeded(node, policy, limit, elapsed)
    })
}

/// Class and words are LangGraph's; stored records have them.
fn exceeded(node: &str, policy: &TimeoutPolicy, limit: &str, elapsed: Duration) -> NodeError {
    let (allowed, how) = match limit {
        "run" => (policy.run, ""),
        _ => (policy.idle, " without making progress"),
    };
    let allowed = allowed.unwrap_or_default();
    let elapsed = elapsed.max(allowed).as_secs_f64();
    let allowed = allowed.as_secs_f64();
    let message = format!(
        "Node '{node}' exceeded its {limit} timeout of {allowed:.3}s{how} (elapsed: {elapsed:.3}s)."
    );
    NodeError::failed("NodeTimeoutError", message)
}

struct Closing<'a>(&'a TimedAttempt);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
