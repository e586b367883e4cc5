//! The queue between a run that must never wait and a client that may be slow or gone.
//!
//! It is bounded: chunks that find it full are left out, and the gap is told where it is. How the
//! run ended has a place of its own and is never what is left out. A run that vanishes without an
//! end (its task panicked or was aborted) is told as that.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::Stream;
use futures::task::AtomicWaker;

use super::answer::{Fault, Word};
use crate::stream::Chunk;

/// Chunks that wait for a client at most.
const BOUND: usize = 256;

/// Both ends of a fresh feed.
pub(super) fn feed() -> (Feeder, Listening) {
    let shared = Arc::new(Shared::default());
    (Feeder(shared.clone()), Listening(shared))
}

#[derive(Default)]
struct Shared {
    state: Mutex<Queue>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Chunk>,
    left_out: u64,
    outcome: Option<Result<(), Fault>>,
    is_told: bool,
    nobody_listens: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The run's end.
pub(super) struct Feeder(Arc<Shared>);

impl Feeder {
    /// Queues a chunk, or leaves it out. Never waits.
    pub fn offer(&self, chunk: Chunk) {
        let mut queue = self.0.queue();
        if queue.nobody_listens {
            return;
        }
        // After a gap has begun, it lasts until the client has caught up: order is kept.
        if queue.left_out > 0 || queue.chunks.len() >= BOUND {
            queue.left_out += 1;
        } else {
            queue.chunks.push_back(chunk);
        }
        drop(queue);
        self.0.waker.wake();
    }

    pub fn finish(self, outcome: Result<(), Fault>) {
        self.0.queue().outcome = Some(outcome);
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        let vanished = || {
            let message = "the run's task ended without a word".to_owned();
            Err(Fault { class: "RunLost".to_owned(), message })
        };
        self.0.queue().outcome.get_or_insert_with(vanished);
        self.0.waker.wake();
    }
}

/// The client's end: the chunks that it was not too slow for, then the outcome.
pub(super) struct Listening(Arc<Shared>);

impl Stream for Listening {
    type Item = Result<Word, Fault>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.waker.register(cx.waker());
        let mut queue = self.0.queue();
        if let Some(chunk) = queue.chunks.pop_front() {
            return Poll::Ready(Some(Ok(Word::Chunk(chunk))));
        }
        if queue.left_out > 0 {
            return Poll::Ready(Some(Ok(Word::Gap(std::mem::take(&mut queue.left_out)))));
        }
        if queue.is_told {
            return Poll::Ready(None);
        }
        match queue.outcome.take() {
            None => Poll::Pending,
            Some(Ok(())) => {
                queue.is_told = true;
                Poll::Ready(None)
            }
            Some(Err(fault)) => {
                queue.is_told = true;
                Poll::Ready(Some(Err(fault)))
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.nobody_listens = true;
        queue.chunks.clear();
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;
    use crate::stream::StreamMode;
    use crate::value::Value;

    fn chunk(n: u64) -> Chunk {
        Chunk { mode: StreamMode::Custom, namespace: Default::default(), data: Value::from(n) }
    }

    #[test]
    fn a_slow_client_learns_of_the_gap_and_of_the_outcome() {
        let (feeder, mut listening) = feed();
        (0..BOUND as u64 + 7).for_each(|n| feeder.offer(chunk(n)));
        feeder.finish(Err(Fault { class: "ValueError".into(), message: "boom".into() }));
        let mut next = || listening.next().now_or_never().expect("nothing waits");
        for n in 0..BOUND as u64 {
            assert!(matches!(next(), Some(Ok(Word::Chunk(c))) if c == chunk(n)));
        }
        assert!(matches!(next(), Some(Ok(Word::Gap(7)))));
        assert!(matches!(next(), Some(Err(fault)) if fault.class == "ValueError"));
        assert!(next().is_none());
    }

    #[test]
    fn a_run_that_vanishes_is_not_a_clean_end() {
        let (feeder, mut listening) = feed();
        assert!(listening.next().now_or_never().is_none(), "nothing has happened yet");
        drop(feeder);
        let told = listening.next().now_or_never();
        assert!(matches!(told, Some(Some(Err(fault))) if fault.class == "RunLost"));
    }

    #[test]
    fn a_client_that_is_gone_costs_nothing() {
        let (feeder, listening) = feed();
        drop(listening);
        (0..10_000).for_each(|n| feeder.offer(chunk(n)));
        assert!(feeder.0.queue().chunks.is_empty());
    }
}
