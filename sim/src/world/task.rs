//! Tasks of a process.
//!
//! A panic in a task of the stock simulator ends the whole simulation. Here it ends its process, as
//! with `panic = "abort"`: noted, then killed, while the world goes on.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use madsim::task::JoinHandle;

use super::{Incarnation, World};
use crate::runner::quiet;

/// The task ended without a value: aborted, panicked, or killed with its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the task was cancelled")]
pub struct Cancelled;

/// A spawned task. Awaiting it gives its value; dropping it lets the task go on alone.
pub struct TaskHandle<T> {
    /// None if the process was already dead: the task never came to be.
    join: Option<JoinHandle<Option<T>>>,
}

impl<T> TaskHandle<T> {
    pub(super) fn new(join: Option<JoinHandle<Option<T>>>) -> Self {
        TaskHandle { join }
    }

    /// Ends the task: its future is dropped, soon after, at the same virtual time. A task aborted
    /// before its first poll never ran, and neither did any guard inside its async block.
    pub fn abort(&self) {
        if let Some(join) = &self.join {
            join.abort();
        }
    }

    pub fn is_finished(&self) -> bool {
        self.join.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(join) = &mut self.join else {
            return Poll::Ready(Err(Cancelled));
        };
        Pin::new(join).poll(cx).map(|joined| joined.ok().flatten().ok_or(Cancelled))
    }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("finished", &self.is_finished()).finish()
    }
}

/// The future that really runs: catches panics of the one inside, in polls and in destructors.
pub(super) struct Guarded<F: Future> {
    /// None once it has finished, panicked or been dropped.
    future: Option<Pin<Box<F>>>,
    world: World,
    incarnation: Incarnation,
    actor: Arc<str>,
}

impl<F: Future> Guarded<F> {
    pub(super) fn new(world: World, incarnation: Incarnation, actor: &str, future: F) -> Self {
        world.meter().task_born();
        Guarded { future: Some(Box::pin(future)), world, incarnation, actor: actor.into() }
    }

    fn discard(&mut self) {
        let future = self.future.take();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            self.world.crash(&self.incarnation, &self.actor, &quiet::message(payload));
        }
    }
}

impl<F: Future> Future for Guarded<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(future) = &mut this.future else {
            return Poll::Ready(None);
        };
        this.world.meter().polled();
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => {
                this.discard();
                Poll::Ready(Some(value))
            }
            Err(payload) => {
                let message = quiet::message(payload);
                this.world.crash(&this.incarnation, &this.actor, &message);
                this.discard();
                Poll::Ready(None)
            }
        }
    }
}

// The future inside is boxed, so moving the guard moves nothing that is pinned.
impl<F: Future> Unpin for Guarded<F> {}

impl<F: Future> Drop for Guarded<F> {
    fn drop(&mut self) {
        self.discard();
        self.world.meter().task_died();
    }
}
