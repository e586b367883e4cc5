use crate::cache::CacheError;
use crate::checkpoint::saver::SaverError;
use crate::graph::{NodeError, StateError};

/// Why a run ended without finishing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    #[error("thread {thread:?} has nothing to continue: give it an input")]
    EmptyInput { thread: String },
    #[error("an empty command says nothing to do")]
    EmptyCommand,
    #[error("{waiting} interrupts wait on thread {thread:?}; name the one that is answered")]
    AmbiguousResume { thread: String, waiting: usize },
    #[error("thread {thread:?} asks nothing that could be answered")]
    NothingAsked { thread: String },
    #[error("no interrupt {id} waits on thread {thread:?}; what waits: {waiting}")]
    UnknownInterrupt { thread: String, id: String, waiting: String },
    /// An input or a command brings what does not fit a typed state. Nothing is stored.
    #[error("the input: {0}")]
    BadInput(StateError),
    #[error("the command: {problem}")]
    BadCommand { problem: String },
    #[error("there is no parent graph to command")]
    NoParent,
    #[error("the update: {problem}")]
    BadUpdate { problem: String },
    #[error("the recursion limit of {limit} steps is reached without an end")]
    Recursion { limit: u64 },
    /// Ended at the edge of a super-step because that was asked for. It can be resumed.
    #[error("the run was drained: {reason}")]
    Drained { reason: String },
    #[error("node {node:?}: {error}")]
    Node { node: String, error: NodeError },
    #[error("channel {channel:?} (written by {}): {problem}", nodes.join(", "))]
    InvalidUpdate { channel: String, nodes: Vec<String>, problem: String },
    #[error(transparent)]
    Saver(#[from] SaverError),
    #[error("thread {thread:?} has no checkpoint {checkpoint}")]
    UnknownCheckpoint { thread: String, checkpoint: String },
    #[error("namespace {namespace:?}: node {node:?} has no graph inside that keeps checkpoints")]
    UnknownNamespace { namespace: String, node: String },
    #[error("the graph keeps no checkpoints: compile it with a saver")]
    NoSaver,
    #[error(transparent)]
    Cache(CacheError),
    #[error("the graph has no cache")]
    NoCache,
}

impl RunError {
    /// The class name under which the real stack reports this error.
    pub fn class(&self) -> &str {
        match self {
            RunError::EmptyInput { .. } | RunError::EmptyCommand => "EmptyInputError",
            RunError::AmbiguousResume { .. }
            | RunError::NothingAsked { .. }
            | RunError::UnknownInterrupt { .. } => "RuntimeError",
            RunError::Recursion { .. } => "GraphRecursionError",
            RunError::Node { error: NodeError::Failed { kind, .. }, .. } => kind,
            RunError::Drained { .. } | RunError::Node { error: NodeError::Drained { .. }, .. } => {
                "GraphDrained"
            }
            RunError::Node { error: NodeError::Command(_), .. } => "ParentCommand",
            RunError::Node { .. } => "GraphInterrupt",
            RunError::BadInput(_) => "ValidationError",
            RunError::InvalidUpdate { .. }
            | RunError::BadCommand { .. }
            | RunError::BadUpdate { .. }
            | RunError::NoParent => "InvalidUpdateError",
            RunError::Saver(_) => "CheckpointerError",
            RunError::Cache(_) => "CacheError",
            RunError::UnknownCheckpoint { .. }
            | RunError::UnknownNamespace { .. }
            | RunError::NoSaver
            | RunError::NoCache => "ValueError",
        }
    }
}
