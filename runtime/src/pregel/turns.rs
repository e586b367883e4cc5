//! Turns of a run with a limit on how much it does at the same time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::RunConfig;
use super::core::RunCore;
use crate::profile::WriteTurns;

/// The turns of one run; `None` when it has no limit.
pub(crate) fn turns(config: &RunConfig) -> Option<Arc<Semaphore>> {
    config.max_concurrency.map(|limit| Arc::new(Semaphore::new(limit.max(1))))
}

impl RunCore {
    /// A place in the queue for a turn. It is taken here and not when the task is polled first, so
    /// that tasks get their turns in the order in which they were started.
    pub(super) fn queue_for_turn(&self) -> Turn {
        Turn(self.turns.clone().map(queued))
    }

    /// As [`RunCore::queue_for_turn`], for a write. It waits for none under the option that lets
    /// writes pass.
    pub(super) fn queue_to_write(&self) -> Turn {
        match self.graph.options.write_turns {
            WriteTurns::Shared => self.queue_for_turn(),
            WriteTurns::Free => Turn(None),
        }
    }
}

fn queued(turns: Arc<Semaphore>) -> BoxFuture<'static, Option<OwnedSemaphorePermit>> {
    let mut waiting = async move { turns.acquire_owned().await.ok() }.boxed();
    let mut nobody = Context::from_waker(futures::task::noop_waker_ref());
    match waiting.as_mut().poll(&mut nobody) {
        Poll::Ready(turn) => futures::future::ready(turn).boxed(),
        // Whoever awaits it gives it a waker.
        Poll::Pending => waiting,
    }
}

/// Resolves when it is one's turn. The turn ends when what it gives is dropped.
pub(super) struct Turn(Option<BoxFuture<'static, Option<OwnedSemaphorePermit>>>);

impl Future for Turn {
    type Output = Option<OwnedSemaphorePermit>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            None => Poll::Ready(None),
            Some(waiting) => waiting.as_mut().poll(cx),
        }
    }
}
