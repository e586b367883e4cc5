//! The nodes of a run that run as their own tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::channel::oneshot;

use crate::doors::RawHandle;
use crate::graph::NodeScope;

/// A node that runs as its own task.
pub(crate) struct RunningNode {
    pub node: Arc<str>,
    pub aborter: Arc<dyn RawHandle>,
    /// There once the node has been entered.
    pub scope: Option<Arc<NodeScope>>,
    /// Resolves when everything of the task is gone.
    pub gone: oneshot::Receiver<()>,
}

/// By task id, and in the order in which they were started. A step may have thousands, so neither a
/// start nor an end looks at the others.
#[derive(Default)]
pub(crate) struct Running {
    nodes: BTreeMap<u64, (Arc<str>, RunningNode)>,
    places: BTreeMap<Arc<str>, u64>,
    started: u64,
}

impl Running {
    pub fn insert(&mut self, task: Arc<str>, node: RunningNode) {
        self.started += 1;
        self.places.insert(task.clone(), self.started);
        self.nodes.insert(self.started, (task, node));
    }

    pub fn get_mut(&mut self, task: &str) -> Option<&mut RunningNode> {
        let place = self.places.get(task)?;
        self.nodes.get_mut(place).map(|(_, node)| node)
    }

    pub fn remove(&mut self, task: &str) -> Option<RunningNode> {
        let place = self.places.remove(task)?;
        self.nodes.remove(&place).map(|(_, node)| node)
    }

    /// All of them, with their task ids.
    pub fn take(&mut self) -> impl Iterator<Item = (Arc<str>, RunningNode)> + use<> {
        self.places.clear();
        std::mem::take(&mut self.nodes).into_values()
    }

    pub fn abort(&self) {
        self.nodes.values().for_each(|(_, node)| node.aborter.abort());
    }
}
