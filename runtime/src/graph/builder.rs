use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;

use indexmap::IndexMap;

use super::compiled::{Branch, CompiledGraph, GraphInner, NodePlan};
use super::node::{NodeFn, node_fn};
use super::{
    END, GraphError, IntoUpdate, NodeContext, NodeError, Router, START, State, StateError,
};
use crate::channels::{ChannelSpec, Reducer};
use crate::checkpoint::id::IdMint;
use crate::checkpoint::reserved;
use crate::checkpoint::saver::Saver;
use crate::doors::Doors;
use crate::pregel::Finalizer;
use crate::profile::Options;

/// A graph of steps over a shared state, under construction.
///
/// Mistakes are kept and reported together by [`StateGraph::compile`], the first one first.
#[derive(Clone)]
pub struct StateGraph {
    name: Arc<str>,
    keys: IndexMap<Arc<str>, ChannelSpec>,
    nodes: IndexMap<Arc<str>, NodeFn>,
    edges: Vec<(String, String)>,
    joins: Vec<(Vec<String>, String)>,
    branches: Vec<(String, Router, Vec<String>)>,
    mistakes: Vec<GraphError>,
}

impl StateGraph {
    pub fn new(name: &str) -> StateGraph {
        StateGraph {
            name: name.into(),
            keys: IndexMap::new(),
            nodes: IndexMap::new(),
            edges: Vec::new(),
            joins: Vec::new(),
            branches: Vec::new(),
            mistakes: Vec::new(),
        }
    }

    /// A state key that holds the last value written to it.
    pub fn key(self, name: &str) -> StateGraph {
        self.declare(name, ChannelSpec::LastValue)
    }

    /// A state key whose writes are folded by a reducer.
    pub fn reduced_key(self, name: &str, reducer: Reducer) -> StateGraph {
        self.declare(name, ChannelSpec::Reducer(reducer))
    }

    fn declare(mut self, name: &str, spec: ChannelSpec) -> StateGraph {
        if name.starts_with("__") || name.contains(':') {
            self.mistakes.push(GraphError::ReservedName(name.to_owned()));
        } else if self.keys.insert(name.into(), spec).is_some() {
            self.mistakes.push(GraphError::Duplicate(name.to_owned()));
        }
        self
    }

    /// A step: an async function from the state to an update of it.
    pub fn node<F, Fut, U>(mut self, name: &str, node: F) -> StateGraph
    where
        F: Fn(State, NodeContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<U, NodeError>> + Send + 'static,
        U: IntoUpdate,
    {
        let taken =
            matches!(name, START | END | "") || name.starts_with("__") || name.contains([':', '|']);
        if taken {
            self.mistakes.push(GraphError::ReservedName(name.to_owned()));
        } else if self.nodes.insert(name.into(), node_fn(node)).is_some() {
            self.mistakes.push(GraphError::Duplicate(name.to_owned()));
        }
        self
    }

    /// After `from`, run `to`.
    pub fn edge(mut self, from: &str, to: &str) -> StateGraph {
        self.edges.push((from.to_owned(), to.to_owned()));
        self
    }

    /// Once every node of `from` has run, run `to`. A list of one waits like any other: it has a
    /// barrier of its own.
    pub fn join(mut self, from: &[&str], to: &str) -> StateGraph {
        self.joins.push((from.iter().map(|&name| name.to_owned()).collect(), to.to_owned()));
        self
    }

    /// After `from`, run what `router` names. `targets` are the names that it may give.
    pub fn branch<R>(mut self, from: &str, targets: &[&str], router: R) -> StateGraph
    where
        R: Fn(&State) -> Result<Vec<String>, StateError> + Send + Sync + 'static,
    {
        let targets = targets.iter().map(|&name| name.to_owned()).collect();
        self.branches.push((from.to_owned(), Arc::new(router), targets));
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
        self.check()?;
        let mut channels = self.keys.clone();
        channels.insert(reserved::START.into(), ChannelSpec::Ephemeral);
        let mut plans: IndexMap<Arc<str>, NodePlan> = IndexMap::new();
        plans.insert(reserved::START.into(), NodePlan::start());
        for (name, run) in &self.nodes {
            let trigger: Arc<str> = branch_channel(name).into();
            channels.insert(trigger.clone(), ChannelSpec::Ephemeral);
            plans.insert(name.clone(), NodePlan::new(run.clone(), trigger));
        }
        for (from, to) in &self.edges {
            let plan = &mut plans[internal_name(from)];
            if to != END {
                plan.goes_to.push(branch_channel(to).into());
            }
        }
        for (from, to) in &self.joins {
            let channel: Arc<str> = format!("join:{}:{to}", from.join("+")).into();
            let names = from.iter().map(|name| Arc::from(name.as_str())).collect();
            channels.insert(channel.clone(), ChannelSpec::Barrier(names));
            for name in from {
                plans[name.as_str()].joins.push(channel.clone());
            }
            plans[to.as_str()].triggers.push(channel);
        }
        for (from, router, targets) in &self.branches {
            let branch = Branch { router: router.clone(), targets: targets.clone() };
            plans[internal_name(from)].branches.push(branch);
        }
        for plan in plans.values_mut() {
            plan.triggers.sort();
            // The order of several edges out of one node is Python's set order there; by name here.
            plan.goes_to.sort();
            plan.goes_to.dedup();
        }
        Ok(CompiledGraph::new(GraphInner {
            name: self.name,
            state_keys: self.keys.into_keys().collect(),
            channels,
            nodes: plans,
            saver,
            options,
            mint: IdMint::new(doors),
            finalizer: Finalizer::start(doors),
            doors: doors.clone(),
        }))
    }

    fn check(&self) -> Result<(), GraphError> {
        if let Some(mistake) = self.mistakes.first() {
            return Err(mistake.clone());
        }
        if self.nodes.is_empty() {
            return Err(GraphError::Empty);
        }
        for (from, to) in &self.edges {
            self.check_edge(from, to)?;
        }
        for (from, to) in &self.joins {
            for from in from {
                self.check_edge(from, to)?;
            }
            let problem = if to == END {
                "a join cannot end at END; END needs no edge to wait for"
            } else if from.iter().any(|name| name == START) {
                "START cannot be part of a join"
            } else if from.is_empty() {
                "a join waits for at least one node"
            } else {
                continue;
            };
            return Err(GraphError::BadEdge { from: from.join("+"), to: to.clone(), problem });
        }
        for (from, _, targets) in &self.branches {
            for to in targets {
                self.check_edge(from, to)?;
            }
        }
        self.check_reachable()
    }

    fn check_edge(&self, from: &str, to: &str) -> Result<(), GraphError> {
        let bad = |problem| {
            Err(GraphError::BadEdge { from: from.to_owned(), to: to.to_owned(), problem })
        };
        if from == END {
            return bad("no edge may leave END");
        }
        if to == START {
            return bad("no edge may enter START");
        }
        for name in [from, to] {
            if name != START && name != END && !self.nodes.contains_key(name) {
                return Err(GraphError::UnknownNode {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    unknown: name.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn check_reachable(&self) -> Result<(), GraphError> {
        let mut reached: BTreeSet<&str> = BTreeSet::from([START]);
        loop {
            let before = reached.len();
            for (from, to) in &self.edges {
                if reached.contains(from.as_str()) {
                    reached.insert(to);
                }
            }
            for (from, to) in &self.joins {
                if from.iter().any(|name| reached.contains(name.as_str())) {
                    reached.insert(to);
                }
            }
            for (from, _, targets) in &self.branches {
                if reached.contains(from.as_str()) {
                    reached.extend(targets.iter().map(String::as_str));
                }
            }
            if reached.len() == before {
                break;
            }
        }
        if reached.len() == 1 {
            return Err(GraphError::NoEntry);
        }
        match self.nodes.keys().find(|name| !reached.contains(&***name)) {
            Some(name) => Err(GraphError::Unreachable(name.to_string())),
            None => Ok(()),
        }
    }
}

pub(crate) fn branch_channel(node: &str) -> String {
    format!("branch:to:{node}")
}

fn internal_name(name: &str) -> &str {
    if name == START { reserved::START } else { name }
}
