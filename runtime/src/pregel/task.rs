use std::sync::Arc;

use crate::checkpoint::{reserved, task_id};
use crate::graph::NodeFailure;
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
    /// The failed task that this one takes care of. Its origin is that task's.
    pub handles: Option<Arc<Handled>>,
}

/// A failed task, as its handler sees it.
#[derive(Debug)]
pub(crate) struct Handled {
    pub failure: NodeFailure,
    /// The failed task's own namespace; its handler's is inside it.
    pub namespace: Arc<str>,
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
    fn path(&self) -> String {
        match self {
            Origin::Edge(node) => task_id::pull_path(node),
            Origin::Send(place) => task_id::push_path(*place),
        }
    }
}

impl Task {
    /// `__start__` does not show in streams.
    pub fn is_hidden(&self) -> bool {
        &*self.node == reserved::START
    }

    /// As it is stored beside the task's writes, where a saver stores it.
    pub fn path(&self) -> String {
        match self.handles {
            None => self.origin.path(),
            Some(_) => task_id::handler_path(&self.origin.path()),
        }
    }

    /// In which a graph inside the task keeps its checkpoints, in a graph with the namespace
    /// `graph`.
    pub fn namespace(&self, graph: &str) -> String {
        let around = self.handles.as_ref().map_or(graph, |handled| &handled.namespace);
        task_id::task_namespace(around, &self.node, &self.id)
    }
}
