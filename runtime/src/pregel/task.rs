use std::sync::Arc;

use crate::checkpoint::task_id;
use crate::graph::State;
use crate::value::Shared;

/// One node to run in one super-step.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub id: Arc<str>,
    pub node: Arc<str>,
    pub origin: Origin,
    pub triggers: Vec<Arc<str>>,
    pub input: State,
    /// Empty until the task has finished, or was found finished among the pending writes.
    pub writes: Vec<(Arc<str>, Shared)>,
}

/// Why a task is there. Tasks are applied in this order: edges first, by node; then Sends, by
/// place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An edge leads to this node.
    Edge(Arc<str>),
    /// A Send, with its place among those of the step.
    Send(usize),
}

impl Origin {
    /// As it is stored beside the task's writes, where a saver stores it.
    pub(crate) fn path(&self) -> String {
        match self {
            Origin::Edge(node) => task_id::pull_path(node),
            Origin::Send(place) => task_id::push_path(*place),
        }
    }
}

impl Task {
    /// `__start__` and its like do not show in streams.
    pub fn is_hidden(&self) -> bool {
        self.node.starts_with("__")
    }
}
