use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use super::compiled::{Branch, CompiledGraph, GraphInner, NodeBody, NodePlan, OutsideCheck};
use super::node::{NodeFn, Router, node_fn};
use super::{
    END, Goto, GraphError, IntoCommand, NodeContext, NodeError, NodeOptions, START, State,
    StateError,
};
use crate::cache::Cache;
use crate::channels::{ChannelSpec, Managed, Reducer};
use crate::checkpoint::id::IdMint;
use crate::checkpoint::reserved;
use crate::checkpoint::saver::Saver;
use crate::doors::Doors;
use crate::ordered::{IndexMap, IndexSet};
use crate::pregel::Finalizer;
use crate::profile::{Options, Suspicions};

/// A graph of steps over a shared state, under construction.
///
/// Mistakes are kept and reported together by [`StateGraph::compile`], the first one first.
#[derive(Clone)]
pub struct StateGraph {
    pub(super) name: Arc<str>,
    pub(super) keys: IndexMap<Arc<str>, ChannelSpec>,
    managed: IndexMap<Arc<str>, Managed>,
    pub(super) input: Option<Vec<String>>,
    pub(super) output: Option<Vec<String>>,
    pub(super) nodes: IndexMap<Arc<str>, Node>,
    pub(super) edges: Vec<(String, String)>,
    pub(super) joins: Vec<(Vec<String>, String)>,
    pub(super) branches: Vec<(String, Router, Option<Vec<String>>)>,
    pub(super) interrupt_before: Vec<String>,
    pub(super) interrupt_after: Vec<String>,
    persistence: Persistence,
    pub(crate) outside_check: Option<OutsideCheck>,
    cache: Option<Arc<dyn Cache>>,
    pub(super) defaults: NodeOptions,
    pub(super) mistakes: Vec<GraphError>,
}

#[derive(Clone)]
pub(super) struct Node {
    body: Body,
    pub options: NodeOptions,
}

#[derive(Clone)]
enum Body {
    Function(NodeFn),
    Subgraph(Box<StateGraph>),
}

/// What a graph that runs inside a node keeps of itself. It has no meaning for a graph that is run
/// on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistence {
    /// Each call begins anew; a call that was cut short goes on where it stood.
    #[default]
    PerCall,
    /// The state is kept from call to call of the same thread.
    PerThread,
    /// Nothing is kept: a call that was cut short begins anew.
    Never,
}

/// The name of a node's error handler has this in front of the node's.
const HANDLER_OF: &str = "__error_handler__";

/// The error handler of the nodes that have none of their own.
const DEFAULT_HANDLER: &str = "__default_error_handler__";

/// Stands for every node, in the lists of static interrupts.
const ALL_NODES: &str = "*";

impl StateGraph {
    pub fn new(name: &str) -> StateGraph {
        StateGraph {
            name: name.into(),
            keys: IndexMap::default(),
            managed: IndexMap::default(),
            input: None,
            output: None,
            nodes: IndexMap::default(),
            edges: Vec::new(),
            joins: Vec::new(),
            branches: Vec::new(),
            interrupt_before: Vec::new(),
            interrupt_after: Vec::new(),
            persistence: Persistence::default(),
            outside_check: None,
            cache: None,
            defaults: NodeOptions::new(),
            mistakes: Vec::new(),
        }
    }

    /// A state key that holds the last value written to it.
    pub fn key(self, name: &str) -> StateGraph {
        self.channel(name, ChannelSpec::LastValue)
    }

    /// A state key whose writes are folded by a reducer.
    pub fn reduced_key(self, name: &str, reducer: Reducer) -> StateGraph {
        self.channel(name, ChannelSpec::Reducer(reducer))
    }

    /// A state key with any kind of channel.
    pub fn channel(mut self, name: &str, spec: ChannelSpec) -> StateGraph {
        if name.starts_with("__") || name.contains(':') {
            self.mistakes.push(GraphError::ReservedName(name.to_owned()));
        } else if self.keys.insert(name.into(), spec).is_some() {
            self.mistakes.push(GraphError::Duplicate(name.to_owned()));
        }
        self
    }

    /// A key that nodes read and the runtime knows the value of.
    pub fn managed_key(mut self, name: &str, managed: Managed) -> StateGraph {
        if self.keys.contains_key(name) || self.managed.insert(name.into(), managed).is_some() {
            self.mistakes.push(GraphError::Duplicate(name.to_owned()));
        }
        self
    }

    /// The keys that an input may write (the input schema). All of them unless this is called.
    pub fn input_keys(mut self, keys: &[&str]) -> StateGraph {
        self.input = Some(keys.iter().map(|&key| key.to_owned()).collect());
        self
    }

    /// The keys that a finished run gives back (the output schema). All of them unless this is
    /// called.
    pub fn output_keys(mut self, keys: &[&str]) -> StateGraph {
        self.output = Some(keys.iter().map(|&key| key.to_owned()).collect());
        self
    }

    /// A step: an async function from the state to an update of it, or to a
    /// [`super::Command`].
    pub fn node<F, Fut, U>(self, name: &str, node: F) -> StateGraph
    where
        F: Fn(State, NodeContext) -> Fut + std::marker::Send + Sync + 'static,
        Fut: Future<Output = Result<U, NodeError>> + std::marker::Send + 'static,
        U: IntoCommand,
    {
        self.node_with(name, NodeOptions::new(), node)
    }

    /// A step with options of its own.
    pub fn node_with<F, Fut, U>(self, name: &str, options: NodeOptions, node: F) -> StateGraph
    where
        F: Fn(State, NodeContext) -> Fut + std::marker::Send + Sync + 'static,
        Fut: Future<Output = Result<U, NodeError>> + std::marker::Send + 'static,
        U: IntoCommand,
    {
        self.add(name, Node { body: Body::Function(node_fn(node)), options })
    }

    /// A graph as a step: it gets the state and writes what it ends with, by the keys that both
    /// graphs have.
    pub fn subgraph(self, name: &str, graph: impl Into<StateGraph>) -> StateGraph {
        self.subgraph_with(name, NodeOptions::new(), graph)
    }

    pub fn subgraph_with(
        self,
        name: &str,
        options: NodeOptions,
        graph: impl Into<StateGraph>,
    ) -> StateGraph {
        self.add(name, Node { body: Body::Subgraph(Box::new(graph.into())), options })
    }

    fn add(mut self, name: &str, node: Node) -> StateGraph {
        let taken =
            matches!(name, START | END | "") || name.starts_with("__") || name.contains([':', '|']);
        if taken {
            self.mistakes.push(GraphError::ReservedName(name.to_owned()));
        } else if self.nodes.insert(name.into(), node).is_some() {
            self.mistakes.push(GraphError::Duplicate(name.to_owned()));
        }
        self
    }

    /// A node that reads these keys, as its type says: they must be declared by now.
    pub(crate) fn note_keys(&mut self, node: &str, keys: &[&str]) {
        let unknown = keys.iter().filter(|key| !self.keys.contains_key(**key));
        self.mistakes.extend(unknown.map(|&key| GraphError::NoSuchKey {
            place: format!("node {node:?}"),
            key: key.to_owned(),
        }));
    }

    /// Options of every node that does not say otherwise: its retries, limits, cache and error
    /// handler. Nodes of graphs inside do not inherit them. Retries hold for error handlers too,
    /// limits and the cache do not. The handler shows as `__default_error_handler__`, and the
    /// destinations here are its own. Said twice, the last counts.
    pub fn node_defaults(mut self, options: NodeOptions) -> StateGraph {
        if let Some(option) = options.not_for_all() {
            self.mistakes.push(GraphError::BadDefault(option));
        }
        self.defaults = options;
        self
    }

    /// What this graph keeps of itself when it runs inside a node.
    pub fn persistence(mut self, persistence: Persistence) -> StateGraph {
        self.persistence = persistence;
        self
    }

    /// Where nodes of this graph that have a [`crate::cache::CachePolicy`] keep what they write. As
    /// in LangGraph, graphs inside it do not share it; give it to them too.
    pub fn cache(mut self, cache: Arc<dyn Cache>) -> StateGraph {
        self.cache = Some(cache);
        self
    }

    /// After `from`, run `to`.
    pub fn edge(mut self, from: &str, to: &str) -> StateGraph {
        self.edges.push((from.to_owned(), to.to_owned()));
        self
    }

    /// Edges from each of these to the next.
    pub fn sequence(mut self, nodes: &[&str]) -> StateGraph {
        for pair in nodes.windows(2) {
            self = self.edge(pair[0], pair[1]);
        }
        self
    }

    /// Once every node of `from` has run, run `to`. A list of one waits like any other: it has a
    /// barrier of its own.
    pub fn join(mut self, from: &[&str], to: &str) -> StateGraph {
        self.joins.push((from.iter().map(|&name| name.to_owned()).collect(), to.to_owned()));
        self
    }

    /// After `from`, go where `router` says: names of nodes, [`super::Send`]s, or both. `targets`
    /// are the nodes that it may name.
    pub fn branch<R, T>(self, from: &str, targets: &[&str], router: R) -> StateGraph
    where
        R: Fn(&State) -> Result<Vec<T>, StateError> + std::marker::Send + Sync + 'static,
        T: Into<Goto>,
    {
        let targets = targets.iter().map(|&name| name.to_owned()).collect();
        self.add_branch(from, Some(targets), router)
    }

    /// As [`StateGraph::branch`], for a router that may name every node of the graph.
    pub fn branch_anywhere<R, T>(self, from: &str, router: R) -> StateGraph
    where
        R: Fn(&State) -> Result<Vec<T>, StateError> + std::marker::Send + Sync + 'static,
        T: Into<Goto>,
    {
        self.add_branch(from, None, router)
    }

    fn add_branch<R, T>(mut self, from: &str, targets: Option<Vec<String>>, router: R) -> StateGraph
    where
        R: Fn(&State) -> Result<Vec<T>, StateError> + std::marker::Send + Sync + 'static,
        T: Into<Goto>,
    {
        let router = move |state: &State| Ok(router(state)?.into_iter().map(Into::into).collect());
        self.branches.push((from.to_owned(), Arc::new(router), targets));
        self
    }

    /// Pauses before each of these nodes runs; `*` stands for all.
    pub fn interrupt_before(mut self, nodes: &[&str]) -> StateGraph {
        self.interrupt_before.extend(nodes.iter().map(|&name| name.to_owned()));
        self
    }

    /// Pauses after each of these nodes has run; `*` stands for all.
    pub fn interrupt_after(mut self, nodes: &[&str]) -> StateGraph {
        self.interrupt_after.extend(nodes.iter().map(|&name| name.to_owned()));
        self
    }

    /// Checks the graph and makes it runnable. `saver` keeps its threads; without one, a run
    /// leaves nothing behind. Call it inside the process (and runtime) that will run the graph:
    /// the task that finishes dropped runs is started here.
    pub fn compile(
        self,
        saver: Option<Arc<dyn Saver>>,
        doors: &Doors,
        options: Options,
    ) -> Result<CompiledGraph, GraphError> {
        // Checked before the finalizer's task is there.
        self.check()?;
        let around = Around {
            saver,
            doors: doors.clone(),
            options,
            mint: Arc::new(IdMint::new(doors)),
            finalizer: Arc::new(Finalizer::start(doors)),
        };
        Ok(CompiledGraph { inner: Arc::new(self.assemble(&around)?) })
    }

    fn assemble(self, around: &Around) -> Result<GraphInner, GraphError> {
        let warnings = self.suspicions();
        if around.options.suspicions == Suspicions::Refused
            && let Some(first) = warnings.first()
        {
            return Err(first.clone());
        }
        for warning in &warnings {
            tracing::warn!(graph = &*self.name, "{warning}");
        }
        let mut channels = self.keys.clone();
        channels.insert(reserved::START.into(), ChannelSpec::Ephemeral);
        channels.insert(reserved::TASKS.into(), ChannelSpec::Topic { accumulates: false });
        let mut plans: IndexMap<Arc<str>, NodePlan> = IndexMap::default();
        plans.insert(reserved::START.into(), NodePlan::start());
        let default_handler = self.defaults.handler.clone().map(|function| {
            let plan = NodePlan::handler(function, self.defaults.retry.clone());
            plans.insert(DEFAULT_HANDLER.into(), plan);
            Arc::<str>::from(DEFAULT_HANDLER)
        });
        for (name, node) in self.nodes {
            let options = node.options.or(&self.defaults);
            let trigger: Arc<str> = branch_channel(&name).into();
            let (plain, joined) = match options.defer {
                true => (ChannelSpec::LastValueAfterFinish, true),
                false => (ChannelSpec::Ephemeral, false),
            };
            channels.insert(trigger.clone(), plain);
            let body = match node.body {
                Body::Function(function) => NodeBody::Function(function),
                Body::Subgraph(graph) => {
                    let graph = graph.assemble(around).map_err(|error| GraphError::InSubgraph {
                        node: name.to_string(),
                        error: Box::new(error),
                    })?;
                    NodeBody::Subgraph(Arc::new(graph))
                }
            };
            let reads: Option<Vec<Arc<str>>> =
                options.reads.map(|keys| keys.into_iter().map(Arc::from).collect());
            let handler = options.handler.map(|function| {
                let own: Arc<str> = format!("{HANDLER_OF}{name}").into();
                let plan = NodePlan::handler(function, self.defaults.retry.clone());
                let plan = NodePlan { reads: reads.clone(), ..plan };
                plans.insert(own.clone(), plan);
                own
            });
            let plan = NodePlan {
                reads,
                retry: options.retry,
                timeout: options.timeout,
                cache: options.cache,
                handler: handler.or_else(|| default_handler.clone()),
                metadata: options.metadata,
                is_deferred: joined,
                ..NodePlan::new(body, trigger)
            };
            plans.insert(name.clone(), plan);
        }
        for (from, to) in &self.edges {
            let plan = &mut plans[internal_name(from)];
            if to != END {
                plan.goes_to.push(branch_channel(to).into());
            }
        }
        for (from, to) in &self.joins {
            let channel: Arc<str> = format!("join:{}:{to}", from.join("+")).into();
            let names: BTreeSet<Arc<str>> = from.iter().map(|name| name.as_str().into()).collect();
            let names = Arc::new(names);
            let spec = match plans[to.as_str()].is_deferred {
                true => ChannelSpec::BarrierAfterFinish(names),
                false => ChannelSpec::Barrier(names),
            };
            channels.insert(channel.clone(), spec);
            for name in from {
                plans[name.as_str()].joins.push(channel.clone());
            }
            plans[to.as_str()].triggers.push(channel);
        }
        for (from, router, targets) in &self.branches {
            let branch = Branch { router: router.clone(), targets: targets.clone() };
            plans[internal_name(from)].branches.push(branch);
        }
        let mut triggered: IndexMap<Arc<str>, Vec<Arc<str>>> = IndexMap::default();
        for (name, plan) in &mut plans {
            plan.triggers.sort();
            // The order of several edges out of one node is Python's set order there; by name here.
            plan.goes_to.sort();
            plan.goes_to.dedup();
            for trigger in &plan.triggers {
                triggered.entry(trigger.clone()).or_default().push(name.clone());
            }
        }
        let all = |keys: Option<Vec<String>>| -> IndexSet<Arc<str>> {
            match keys {
                None => self.keys.keys().cloned().collect(),
                Some(keys) => keys.into_iter().map(Arc::from).collect(),
            }
        };
        let names = |names: Vec<String>| names.into_iter().map(Arc::from).collect();
        Ok(GraphInner {
            name: self.name,
            input_keys: all(self.input),
            output_keys: all(self.output),
            state_keys: all(None),
            managed: self.managed,
            channels,
            nodes: plans,
            triggered,
            interrupt_before: names(self.interrupt_before),
            interrupt_after: names(self.interrupt_after),
            persistence: self.persistence,
            outside_check: self.outside_check,
            cache: self.cache,
            saver: around.saver.clone(),
            options: around.options,
            mint: around.mint.clone(),
            finalizer: around.finalizer.clone(),
            doors: around.doors.clone(),
            warnings,
        })
    }
}

/// What a graph and those inside it share.
struct Around {
    saver: Option<Arc<dyn Saver>>,
    doors: Doors,
    options: Options,
    mint: Arc<IdMint>,
    finalizer: Arc<Finalizer>,
}

impl Node {
    pub(super) fn subgraph(&self) -> Option<&StateGraph> {
        match &self.body {
            Body::Subgraph(graph) => Some(graph),
            Body::Function(_) => None,
        }
    }
}

pub(super) fn is_all_nodes(name: &str) -> bool {
    name == ALL_NODES
}

pub(crate) fn branch_channel(node: &str) -> String {
    format!("branch:to:{node}")
}

fn internal_name(name: &str) -> &str {
    if name == START { reserved::START } else { name }
}
