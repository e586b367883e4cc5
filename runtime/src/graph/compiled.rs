use std::sync::Arc;

use super::{
    GraphError, NodeFn, Persistence, RetryPolicy, Router, State, StateError, TimeoutPolicy, Update,
};
use crate::cache::{Cache, CachePolicy};
use crate::channels::{Channel, ChannelSpec, Managed, Progress};
use crate::checkpoint::id::IdMint;
use crate::checkpoint::saver::Saver;
use crate::checkpoint::{Checkpoint, reserved};
use crate::doors::Doors;
use crate::ordered::{IndexMap, IndexSet};
use crate::pregel::{Finalizer, Input, Rebuilt};
use crate::profile::Options;
use crate::value::{Shared, Value};

/// A checked graph with its saver and doors, ready to run. Cheap to clone.
#[derive(Clone)]
pub struct CompiledGraph {
    pub(crate) inner: Arc<GraphInner>,
}

impl CompiledGraph {
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub fn doors(&self) -> &Doors {
        &self.inner.doors
    }

    pub fn options(&self) -> Options {
        self.inner.options
    }

    /// Does what an input or a command brings fit a typed state? A run checks it by itself, before
    /// it stores anything. A graph without types takes everything.
    pub fn check(&self, input: &Input) -> Result<(), StateError> {
        self.inner.check_input(input)
    }

    /// What looked like a mistake, under the option that does not refuse it.
    pub fn warnings(&self) -> &[GraphError] {
        &self.inner.warnings
    }
}

pub(crate) struct GraphInner {
    pub name: Arc<str>,
    /// The keys that users declared, in their order.
    pub state_keys: IndexSet<Arc<str>>,
    /// Those that an input may write, and those that a finished run gives back.
    pub input_keys: IndexSet<Arc<str>>,
    pub output_keys: IndexSet<Arc<str>>,
    pub managed: IndexMap<Arc<str>, Managed>,
    /// All channels, internal ones included.
    pub channels: IndexMap<Arc<str>, ChannelSpec>,
    pub nodes: IndexMap<Arc<str>, NodePlan>,
    /// For each trigger channel, the nodes that it triggers.
    pub triggered: IndexMap<Arc<str>, Vec<Arc<str>>>,
    pub interrupt_before: Vec<Arc<str>>,
    pub interrupt_after: Vec<Arc<str>>,
    pub persistence: Persistence,
    pub outside_check: Option<OutsideCheck>,
    pub saver: Option<Arc<dyn Saver>>,
    /// Its own; graphs inside it have theirs.
    pub cache: Option<Arc<dyn Cache>>,
    pub options: Options,
    pub mint: Arc<IdMint>,
    pub finalizer: Arc<Finalizer>,
    pub doors: Doors,
    pub warnings: Vec<GraphError>,
}

/// May this key be given this value from outside: by an input, a command or an update?
pub(crate) type OutsideCheck = Arc<dyn Fn(&str, &Value) -> Result<(), StateError> + Send + Sync>;

/// The channels of one run, in declaration order.
pub(crate) type Channels = IndexMap<Arc<str>, Box<dyn Channel>>;

impl GraphInner {
    /// All channels as a checkpoint holds them, and those that it does not hold as they were rebuilt.
    pub fn open_channels(&self, checkpoint: &Checkpoint, rebuilt: &Rebuilt) -> Channels {
        let stored = |name: &Arc<str>| {
            rebuilt.get(name).or_else(|| checkpoint.channel_values.get(name)).cloned()
        };
        self.channels.iter().map(|(name, spec)| (name.clone(), spec.open(stored(name)))).collect()
    }

    /// The user's part of the state.
    pub fn read_state(&self, channels: &Channels) -> State {
        read(channels, self.state_keys.iter())
    }

    /// What a node gets: the keys that it reads, and the managed values of this step.
    pub fn node_input(&self, node: &NodePlan, channels: &Channels, at: Progress) -> State {
        let mut values = match &node.reads {
            None => read_values(channels, self.state_keys.iter()),
            Some(keys) => read_values(channels, keys.iter()),
        };
        for (key, managed) in &self.managed {
            values.insert(key.clone(), managed.value(at).into());
        }
        State::new(values)
    }

    /// The state as it would be after `writes`, for routers.
    pub fn read_after(
        &self,
        node: &NodePlan,
        channels: &Channels,
        writes: &[(Arc<str>, Shared)],
    ) -> Result<State, (Arc<str>, crate::channels::ChannelError)> {
        let mut values = IndexMap::default();
        let keys: Vec<&Arc<str>> = match &node.reads {
            None => self.state_keys.iter().collect(),
            Some(keys) => keys.iter().collect(),
        };
        for key in keys {
            let mine: Vec<Shared> =
                writes.iter().filter(|(k, _)| k == key).map(|(_, v)| v.clone()).collect();
            let value = if mine.is_empty() {
                channels[key].get()
            } else {
                let stored = match &self.channels[key] {
                    ChannelSpec::Delta(_) => channels[key].get(),
                    _ => channels[key].checkpoint(),
                };
                let mut copy = self.channels[key].open(stored);
                copy.update(&mine).map_err(|error| (key.clone(), error))?;
                copy.get()
            };
            if let Some(value) = value {
                values.insert(key.clone(), value);
            }
        }
        Ok(State::new(values))
    }

    pub fn check_input(&self, input: &Input) -> Result<(), StateError> {
        let Some(check) = &self.outside_check else { return Ok(()) };
        match input {
            Input::Resume | Input::New(Value::Nil) => Ok(()),
            Input::Command(command) => self.check_outside(&command.update),
            Input::New(Value::Map(entries)) => entries
                .iter()
                .filter_map(|(key, value)| Some((key.as_str()?, value)))
                .filter(|(key, _)| self.input_keys.contains(*key))
                .try_for_each(|(key, value)| check(key, value)),
            Input::New(other) => Err(StateError::NoMap(other.to_string())),
        }
    }

    pub fn check_outside(&self, update: &Update) -> Result<(), StateError> {
        let Some(check) = &self.outside_check else { return Ok(()) };
        update.writes.iter().try_for_each(|(key, value)| check(key, value))
    }

    pub fn is_state_key(&self, name: &str) -> bool {
        self.state_keys.contains(name)
    }

    /// The graph inside this node, if it keeps anything that could be looked at.
    pub fn subgraph(&self, node: &str) -> Option<&Arc<GraphInner>> {
        match &self.nodes.get(node)?.body {
            NodeBody::Subgraph(graph) if graph.persistence != Persistence::Never => Some(graph),
            _ => None,
        }
    }
}

/// The values of those of `keys` that are not empty.
pub(crate) fn read<'k>(channels: &Channels, keys: impl Iterator<Item = &'k Arc<str>>) -> State {
    State::new(read_values(channels, keys))
}

fn read_values<'k>(
    channels: &Channels,
    keys: impl Iterator<Item = &'k Arc<str>>,
) -> IndexMap<Arc<str>, Shared> {
    keys.filter_map(|key| Some((key.clone(), channels[key].get()?))).collect()
}

/// What a node does.
pub(crate) enum NodeBody {
    /// `__start__`: passes the input on.
    Start,
    Function(NodeFn),
    Subgraph(Arc<GraphInner>),
}

/// What the runtime knows of a node.
pub(crate) struct NodePlan {
    pub body: NodeBody,
    /// Sorted by name.
    pub triggers: Vec<Arc<str>>,
    pub is_deferred: bool,
    /// `None` reads every key.
    pub reads: Option<Vec<Arc<str>>>,
    pub retry: Vec<RetryPolicy>,
    pub timeout: Option<TimeoutPolicy>,
    pub cache: Option<CachePolicy>,
    /// The node that takes care of its failures.
    pub handler: Option<Arc<str>>,
    /// Shown beside its tasks.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// `branch:to:*` channels of the plain edges.
    pub goes_to: Vec<Arc<str>>,
    /// `join:*` channels that this node is a part of.
    pub joins: Vec<Arc<str>>,
    pub branches: Vec<Branch>,
}

/// A conditional edge.
pub(crate) struct Branch {
    pub router: Router,
    /// The nodes that it may name; `None` for any.
    pub targets: Option<Vec<String>>,
}

impl NodePlan {
    pub fn new(body: NodeBody, trigger: Arc<str>) -> NodePlan {
        NodePlan {
            body,
            triggers: vec![trigger],
            is_deferred: false,
            reads: None,
            retry: vec![],
            timeout: None,
            cache: None,
            handler: None,
            metadata: Default::default(),
            goes_to: vec![],
            joins: vec![],
            branches: vec![],
        }
    }

    /// Nothing triggers an error handler but a failure.
    pub fn handler(function: NodeFn, retry: Vec<RetryPolicy>) -> NodePlan {
        let plan = NodePlan::new(NodeBody::Function(function), "".into());
        NodePlan { triggers: vec![], retry, ..plan }
    }

    pub fn start() -> NodePlan {
        NodePlan::new(NodeBody::Start, reserved::START.into())
    }
}
