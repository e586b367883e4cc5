use crate::checkpoint::saver::SaverError;
use crate::graph::NodeError;

/// Why a run ended without finishing.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    #[error("thread {thread:?} has nothing to continue: give it an input")]
    EmptyInput { thread: String },
    #[error("an empty command says nothing to do")]
    EmptyCommand,
    #[error("{waiting} interrupts wait on thread {thread:?}; name the one that is answered")]
    AmbiguousResume { thread: String, waiting: usize },
    #[error("the recursion limit of {limit} steps is reached without an end")]
    Recursion { limit: u64 },
    #[error("node {node:?}: {error}")]
    Node { node: String, error: NodeError },
    #[error("channel {channel:?} (written by {}): {problem}", nodes.join(", "))]
    InvalidUpdate { channel: String, nodes: Vec<String>, problem: String },
    #[error("node {node:?} goes to {target:?}, which its branch does not name")]
    UnknownTarget { node: String, target: String },
    #[error(transparent)]
    Saver(#[from] SaverError),
    #[error("thread {thread:?} has no checkpoint {checkpoint}")]
    UnknownCheckpoint { thread: String, checkpoint: String },
    #[error("the graph keeps no checkpoints: compile it with a saver")]
    NoSaver,
}

impl RunError {
    /// The class name under which the real stack reports this error.
    pub fn class(&self) -> &str {
        match self {
            RunError::EmptyInput { .. } | RunError::EmptyCommand => "EmptyInputError",
            RunError::AmbiguousResume { .. } => "RuntimeError",
            RunError::Recursion { .. } => "GraphRecursionError",
            RunError::Node { error: NodeError::Failed { kind, .. }, .. } => kind,
            RunError::Node { .. } => "GraphInterrupt",
            RunError::InvalidUpdate { .. } | RunError::UnknownTarget { .. } => "InvalidUpdateError",
            RunError::Saver(_) => "CheckpointerError",
            RunError::UnknownCheckpoint { .. } | RunError::NoSaver => "ValueError",
        }
    }
}
