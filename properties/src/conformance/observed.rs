//! What a run of a case left, as it is: full ids, the runtime's own types.

use durasim_runtime::Chunk;
use durasim_runtime::checkpoint::CheckpointTuple;
use durasim_runtime::pregel::{RunError, StateSnapshot};

use super::store::WriteKey;

/// The whole of a case.
pub(super) struct Observed {
    pub effects: Vec<String>,
    pub operations: Vec<ObservedOperation>,
    pub threads: Vec<ObservedThread>,
}

/// One operation of the script.
#[derive(Default)]
pub(super) struct ObservedOperation {
    pub name: &'static str,
    pub effects: Vec<String>,
    pub events: Option<Vec<Chunk>>,
    pub error: Option<RunError>,
    pub state: Option<StateSnapshot>,
    pub history: Option<Vec<StateSnapshot>>,
    pub is_closed: bool,
    pub is_cancelled: bool,
}

/// A thread when everything is over.
pub(super) struct ObservedThread {
    pub name: String,
    /// Its head; the stored writes may be such that it cannot be told.
    pub last: Result<StateSnapshot, RunError>,
    /// Oldest first.
    pub history: Vec<StateSnapshot>,
    /// The checkpoints of graphs inside, newest first in each namespace.
    pub inside: Vec<StateSnapshot>,
    /// All namespaces, oldest first.
    pub stored: Vec<CheckpointTuple>,
    /// `None` when the store does not show them.
    pub write_keys: Option<Vec<WriteKey>>,
}
