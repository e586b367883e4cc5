//! The queue between a run and its consumer.
//!
//! A run is a generator: chunks are queued as they come to be, and leave only when the run reaches
//! a yield point. Which yield point that is decides what a client has seen at the moment it goes
//! away, so the two steps are kept apart here.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

use super::{Chunk, StreamMode};

/// Shared by a run's loop, its nodes and its consumer.
pub(crate) struct Outlet {
    modes: Vec<StreamMode>,
    queued: Mutex<VecDeque<Chunk>>,
    /// Chunks that passed a yield point; the loop stays there until the consumer took them all.
    ready: Mutex<VecDeque<Chunk>>,
    waiting_loop: AtomicWaker,
}

impl Outlet {
    pub fn new(modes: Vec<StreamMode>) -> Outlet {
        Outlet {
            modes,
            queued: Mutex::default(),
            ready: Mutex::default(),
            waiting_loop: AtomicWaker::new(),
        }
    }

    pub fn wants(&self, mode: StreamMode) -> bool {
        self.modes.contains(&mode)
    }

    pub fn queue(&self, chunk: Chunk) {
        if self.wants(chunk.mode) {
            self.queued.lock().unwrap().push_back(chunk);
            self.waiting_loop.wake();
        }
    }

    pub fn has_queued(&self) -> bool {
        !self.queued.lock().unwrap().is_empty()
    }

    /// Wakes the loop if it waits for its nodes.
    pub fn wake_loop(&self) {
        self.waiting_loop.wake();
    }

    /// Registers the loop to be woken by [`Outlet::queue`] and [`Outlet::wake_loop`].
    pub fn watch(&self, cx: &Context<'_>) {
        self.waiting_loop.register(cx.waker());
    }

    /// Takes the next chunk that may leave.
    pub fn take(&self) -> Option<Chunk> {
        self.ready.lock().unwrap().pop_front()
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.lock().unwrap().is_empty()
    }

    /// A yield point: everything queued may leave, and the loop stays here until it has.
    pub async fn yield_queued(&self) {
        self.ready.lock().unwrap().append(&mut self.queued.lock().unwrap());
        // No waker: the consumer polls the loop again when it has taken the last ready chunk.
        futures::future::poll_fn(|_| match self.ready.lock().unwrap().is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await
    }
}
