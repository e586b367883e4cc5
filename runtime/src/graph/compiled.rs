use std::sync::Arc;

use indexmap::IndexMap;

use super::node::NodeFn;
use super::{Router, State};
use crate::channels::{Channel, ChannelSpec};
use crate::checkpoint::id::IdMint;
use crate::checkpoint::saver::Saver;
use crate::checkpoint::{Checkpoint, reserved};
use crate::doors::Doors;
use crate::pregel::Finalizer;
use crate::profile::Options;
use crate::value::Shared;

/// A checked graph with its saver and doors, ready to run. Cheap to clone.
#[derive(Clone)]
pub struct CompiledGraph {
    pub(crate) inner: Arc<GraphInner>,
}

impl CompiledGraph {
    pub(crate) fn new(inner: GraphInner) -> CompiledGraph {
        CompiledGraph { inner: Arc::new(inner) }
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub fn doors(&self) -> &Doors {
        &self.inner.doors
    }

    pub fn options(&self) -> Options {
        self.inner.options
    }
}

pub(crate) struct GraphInner {
    pub name: Arc<str>,
    /// The keys that users declared, in their order.
    pub state_keys: Vec<Arc<str>>,
    /// All channels, internal ones included.
    pub channels: IndexMap<Arc<str>, ChannelSpec>,
    pub nodes: IndexMap<Arc<str>, NodePlan>,
    pub saver: Option<Arc<dyn Saver>>,
    pub options: Options,
    pub mint: IdMint,
    pub finalizer: Finalizer,
    pub doors: Doors,
}

/// The channels of one run, in declaration order.
pub(crate) type Channels = IndexMap<Arc<str>, Box<dyn Channel>>;

impl GraphInner {
    /// All channels as a checkpoint holds them.
    pub fn open_channels(&self, checkpoint: &Checkpoint) -> Channels {
        let stored = |name: &Arc<str>| checkpoint.channel_values.get(name).cloned();
        self.channels.iter().map(|(name, spec)| (name.clone(), spec.open(stored(name)))).collect()
    }

    /// The user's part of the state.
    pub fn read_state(&self, channels: &Channels) -> State {
        let values =
            self.state_keys.iter().filter_map(|key| Some((key.clone(), channels[key].get()?)));
        State::new(values.collect())
    }

    /// The state as it would be after `writes`, for routers.
    pub fn read_after(
        &self,
        channels: &Channels,
        writes: &[(Arc<str>, Shared)],
    ) -> Result<State, (Arc<str>, crate::channels::ChannelError)> {
        let mut values = IndexMap::new();
        for key in &self.state_keys {
            let mine: Vec<Shared> =
                writes.iter().filter(|(k, _)| k == key).map(|(_, v)| v.clone()).collect();
            let value = if mine.is_empty() {
                channels[key].get()
            } else {
                let mut copy = self.channels[key].open(channels[key].checkpoint());
                copy.update(&mine).map_err(|error| (key.clone(), error))?;
                copy.get()
            };
            if let Some(value) = value {
                values.insert(key.clone(), value);
            }
        }
        Ok(State::new(values))
    }

    pub fn is_state_key(&self, name: &str) -> bool {
        self.channels.contains_key(name) && self.state_keys.iter().any(|key| &**key == name)
    }
}

/// What the runtime knows of a node.
pub(crate) struct NodePlan {
    /// `None` for `__start__`, which only passes the input on.
    pub run: Option<NodeFn>,
    /// Sorted by name.
    pub triggers: Vec<Arc<str>>,
    /// `branch:to:*` channels of the plain edges.
    pub goes_to: Vec<Arc<str>>,
    /// `join:*` channels that this node is a part of.
    pub joins: Vec<Arc<str>>,
    pub branches: Vec<Branch>,
}

/// A conditional edge.
pub(crate) struct Branch {
    pub router: Router,
    pub targets: Vec<String>,
}

impl NodePlan {
    pub fn new(run: NodeFn, trigger: Arc<str>) -> NodePlan {
        NodePlan {
            run: Some(run),
            triggers: vec![trigger],
            goes_to: vec![],
            joins: vec![],
            branches: vec![],
        }
    }

    pub fn start() -> NodePlan {
        NodePlan {
            run: None,
            triggers: vec![reserved::START.into()],
            goes_to: vec![],
            joins: vec![],
            branches: vec![],
        }
    }
}
