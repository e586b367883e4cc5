//! Typed events as they happen. They may explain what was seen; they never count as evidence.

use std::sync::Arc;

/// Whom an event belongs to. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    pub request: Option<Arc<str>>,
    pub run: Option<Arc<str>>,
    pub thread: Option<Arc<str>>,
}

/// One thing that happened inside the runtime.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub labels: Labels,
    pub what: What,
}

/// The kinds of events. Ids are full ids; `step` is the checkpoint's step.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    RequestArrived {
        path: Arc<str>,
    },
    RunStarted {
        input: &'static str,
    },
    CheckpointLoaded {
        checkpoint: Arc<str>,
        step: i64,
    },
    NodeEntered {
        node: Arc<str>,
        task: Arc<str>,
        checkpoint: Arc<str>,
    },
    NodeFinished {
        node: Arc<str>,
        task: Arc<str>,
    },
    NodeFailed {
        node: Arc<str>,
        task: Arc<str>,
        error: Arc<str>,
    },
    NodeInterrupted {
        node: Arc<str>,
        task: Arc<str>,
    },
    /// The node's own task was cancelled while it ran.
    NodeCancelled {
        node: Arc<str>,
        task: Arc<str>,
    },
    /// The run is gone and the node's own task runs on; nothing will record it.
    NodeOrphaned {
        node: Arc<str>,
        task: Arc<str>,
    },
    PutBegun {
        checkpoint: Arc<str>,
        source: &'static str,
        step: i64,
    },
    PutAcknowledged {
        checkpoint: Arc<str>,
        source: &'static str,
        step: i64,
    },
    PutFailed {
        checkpoint: Arc<str>,
        step: i64,
        error: Arc<str>,
    },
    /// The loop's await of this put was cancelled; it may or may not have landed.
    PutCancelled {
        checkpoint: Arc<str>,
        step: i64,
    },
    WritesBegun {
        checkpoint: Arc<str>,
        task: Arc<str>,
    },
    WritesAcknowledged {
        checkpoint: Arc<str>,
        task: Arc<str>,
    },
    WritesFailed {
        checkpoint: Arc<str>,
        task: Arc<str>,
        error: Arc<str>,
    },
    /// A new input marked this unfinished task as seen without running it.
    TaskDiscarded {
        node: Arc<str>,
        task: Arc<str>,
    },
    ChunkDelivered {
        mode: &'static str,
    },
    /// How the run ended: `finished`, `failed`, `interrupted`, `drained`, `closed`, or `dropped` with
    /// its cancel style.
    RunEnded {
        outcome: &'static str,
    },
}

/// Receives events. Must not block and must not call back into the runtime.
pub trait Observer: Send + Sync {
    fn observe(&self, event: Event);
    /// When false, callers may skip building events.
    fn enabled(&self) -> bool {
        true
    }
}

/// Nobody watches.
pub struct SilentObserver;

impl Observer for SilentObserver {
    fn observe(&self, _event: Event) {}

    fn enabled(&self) -> bool {
        false
    }
}
