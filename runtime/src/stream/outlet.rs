//! The queue between a run and its consumer.
//!
//! A run is a generator: chunks are queued as they come to be, and leave only when the run reaches
//! a yield point. Which yield point that is decides what a client has seen at the moment it goes
//! away, so the two steps are kept apart here.
//!
//! A graph that runs inside a node has an outlet of its own into the same queue, and no yield
//! points: what it queues leaves at those of the run around it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

use super::{Chunk, StreamMode};
use crate::graph::State;
use crate::value::Value;

/// Shared by a run's loop, its nodes and its consumer.
pub(crate) struct Outlet {
    queue: Arc<Queue>,
    /// The namespace of the graph that queues here, part by part.
    namespace: Arc<[Arc<str>]>,
    /// A graph inside another is shown only when the stream was asked to.
    is_shown: bool,
    /// Wakes the loop of this graph.
    waiting_loop: Arc<AtomicWaker>,
}

struct Queue {
    modes: Vec<StreamMode>,
    shows_subgraphs: bool,
    queued: Mutex<VecDeque<Queued>>,
    /// Chunks that passed a yield point; the loop stays there until the consumer took them all.
    ready: Mutex<VecDeque<Queued>>,
    /// For a consumer who looks at nothing but the last chunk: the last that passed a yield point,
    /// where the loop then does not stay.
    last: Option<Mutex<Option<Queued>>>,
    /// That of the run that the consumer polls.
    root_loop: Arc<AtomicWaker>,
}

/// A chunk on its way. A state is shared until somebody takes the chunk: whoever looks at one in a
/// hundred pays for one.
struct Queued {
    mode: StreamMode,
    namespace: Arc<[Arc<str>]>,
    data: Data,
}

enum Data {
    Whole(Value),
    State(State),
}

impl Queued {
    fn chunk(self) -> Chunk {
        let data = match self.data {
            Data::Whole(data) => data,
            Data::State(state) => state.to_value(),
        };
        Chunk { mode: self.mode, namespace: self.namespace, data }
    }
}

impl Outlet {
    pub fn new(modes: Vec<StreamMode>, shows_subgraphs: bool) -> Outlet {
        Outlet::with(modes, shows_subgraphs, false)
    }

    /// For a consumer who takes only the last chunk, with [`Outlet::take_last`].
    pub fn of_last(modes: Vec<StreamMode>, shows_subgraphs: bool) -> Outlet {
        Outlet::with(modes, shows_subgraphs, true)
    }

    fn with(modes: Vec<StreamMode>, shows_subgraphs: bool, only_last: bool) -> Outlet {
        let root_loop: Arc<AtomicWaker> = Arc::default();
        let queue = Queue {
            modes,
            shows_subgraphs,
            queued: Mutex::default(),
            ready: Mutex::default(),
            last: only_last.then(Mutex::default),
            root_loop: root_loop.clone(),
        };
        Outlet {
            queue: Arc::new(queue),
            namespace: Arc::default(),
            is_shown: true,
            waiting_loop: root_loop,
        }
    }

    /// The outlet of a graph that runs inside.
    pub fn inside(&self, namespace: &str) -> Outlet {
        Outlet {
            queue: self.queue.clone(),
            namespace: namespace.split('|').map(Arc::from).collect(),
            is_shown: self.queue.shows_subgraphs,
            waiting_loop: Arc::default(),
        }
    }

    /// The outlet of a task whose chunks come from another namespace than its graph's. It shows in
    /// streams that show subgraphs; in others, chunks say nothing of it.
    pub fn under(&self, namespace: &str) -> Outlet {
        let namespace = match self.shows_subgraphs() {
            true => namespace.split('|').map(Arc::from).collect(),
            false => self.namespace.clone(),
        };
        Outlet {
            queue: self.queue.clone(),
            namespace,
            is_shown: self.is_shown,
            waiting_loop: self.waiting_loop.clone(),
        }
    }

    pub fn wants(&self, mode: StreamMode) -> bool {
        self.is_shown && self.queue.modes.contains(&mode)
    }

    /// Must chunks be able to leave while nodes run?
    pub fn is_eager(&self) -> bool {
        let is_live = |mode| self.queue.modes.contains(&mode);
        self.is_root()
            && (self.queue.shows_subgraphs
                || is_live(StreamMode::Custom)
                || is_live(StreamMode::Messages))
    }

    pub fn shows_subgraphs(&self) -> bool {
        self.queue.shows_subgraphs
    }

    fn is_root(&self) -> bool {
        self.namespace.is_empty()
    }

    /// Queues `data`, if this mode is asked for.
    pub fn queue(&self, mode: StreamMode, data: Value) {
        if self.wants(mode) {
            self.push(mode, Data::Whole(data));
        }
    }

    /// Queues a state, if states are asked for.
    pub fn queue_state(&self, state: impl FnOnce() -> State) {
        if self.wants(StreamMode::Values) {
            self.push(StreamMode::Values, Data::State(state()));
        }
    }

    fn push(&self, mode: StreamMode, data: Data) {
        let chunk = Queued { mode, namespace: self.namespace.clone(), data };
        self.queue.queued.lock().unwrap().push_back(chunk);
        self.queue.root_loop.wake();
    }

    pub fn has_queued(&self) -> bool {
        !self.queue.queued.lock().unwrap().is_empty()
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
        self.queue.ready.lock().unwrap().pop_front().map(Queued::chunk)
    }

    /// Takes the last chunk that passed a yield point.
    pub fn take_last(&self) -> Option<Chunk> {
        self.queue.last.as_ref()?.lock().unwrap().take().map(Queued::chunk)
    }

    pub fn has_ready(&self) -> bool {
        !self.queue.ready.lock().unwrap().is_empty()
    }

    /// A yield point: everything queued may leave, and the loop stays here until it has.
    pub async fn yield_queued(&self) {
        if !self.is_root() {
            return;
        }
        let Queue { ready, queued, last, .. } = &*self.queue;
        if let Some(last) = last {
            let newest = std::mem::take(&mut *queued.lock().unwrap()).pop_back();
            if newest.is_some() {
                *last.lock().unwrap() = newest;
            }
            return;
        }
        ready.lock().unwrap().append(&mut queued.lock().unwrap());
        // No waker: the consumer polls the loop again when it has taken the last ready chunk.
        futures::future::poll_fn(|_| match ready.lock().unwrap().is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await
    }
}
