use std::sync::Arc;

use crate::graph::State;
use crate::value::Shared;

/// One node to run in one super-step.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub id: Arc<str>,
    pub node: Arc<str>,
    /// Sorts tasks for applying their writes; also stored by Postgres.
    pub path: Arc<str>,
    pub triggers: Vec<Arc<str>>,
    pub input: State,
    /// Empty until the task has finished, or was found finished among the pending writes.
    pub writes: Vec<(Arc<str>, Shared)>,
}

impl Task {
    /// `__start__` and its like do not show in streams.
    pub fn is_hidden(&self) -> bool {
        self.node.starts_with("__")
    }
}
