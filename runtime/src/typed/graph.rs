use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{FromState, Route, Schema, UpdateOf};
use crate::checkpoint::saver::Saver;
use crate::doors::Doors;
use crate::graph::{
    CompiledGraph, GraphError, IntoCommand, NodeContext, NodeError, NodeOptions, Persistence,
    State, StateGraph,
};
use crate::profile::Options;
use crate::value::Value;

/// A [`StateGraph`] whose state is the struct `S`.
///
/// What nodes read and write is checked by the compiler. What comes from outside as data (inputs,
/// commands, updates of a thread) is checked against the types of `S` before anything is stored.
pub struct TypedGraph<S> {
    graph: StateGraph,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for TypedGraph<S> {
    fn clone(&self) -> TypedGraph<S> {
        TypedGraph { graph: self.graph.clone(), state: PhantomData }
    }
}

/// To put it into a graph whose state is another, or to use what only [`StateGraph`] has.
impl<S> From<TypedGraph<S>> for StateGraph {
    fn from(typed: TypedGraph<S>) -> StateGraph {
        typed.graph
    }
}

impl<S: Schema> TypedGraph<S> {
    /// A graph with the channels that `S` declares.
    pub fn new(name: &str) -> TypedGraph<S> {
        let fields = S::fields();
        let checks: BTreeMap<_, _> = fields.iter().map(|field| (field.key, field.check)).collect();
        let check = move |key: &str, value: &Value| match checks.get(key) {
            Some(check) => check(key, value),
            None => Ok(()),
        };
        let declare =
            |graph: StateGraph, field: super::Field| graph.channel(field.key, field.channel);
        let mut graph = fields.into_iter().fold(StateGraph::new(name), declare);
        graph.outside_check = Some(Arc::new(check));
        TypedGraph { graph, state: PhantomData }
    }

    fn with(self, change: impl FnOnce(StateGraph) -> StateGraph) -> TypedGraph<S> {
        TypedGraph { graph: change(self.graph), state: PhantomData }
    }

    /// A step: an async function from the state, or a part of it, to an update.
    pub fn node<F, I, Fut, U>(self, name: &str, node: F) -> TypedGraph<S>
    where
        F: Fn(I, NodeContext) -> Fut + Send + Sync + 'static,
        I: FromState,
        Fut: Future<Output = Result<U, NodeError>> + Send + 'static,
        U: IntoCommand + UpdateOf<S>,
    {
        self.node_with(name, NodeOptions::new(), node)
    }

    /// A step with options of its own.
    pub fn node_with<F, I, Fut, U>(self, name: &str, options: NodeOptions, node: F) -> TypedGraph<S>
    where
        F: Fn(I, NodeContext) -> Fut + Send + Sync + 'static,
        I: FromState,
        Fut: Future<Output = Result<U, NodeError>> + Send + 'static,
        U: IntoCommand + UpdateOf<S>,
    {
        let untyped = move |state: State, context| {
            let running = I::from_state(&state).map(|input| node(input, context));
            async move { running?.await }
        };
        self.with(|mut graph| {
            graph.note_keys(name, &I::keys());
            graph.node_with(name, options, untyped)
        })
    }

    /// A graph as a step, with a state of its own: it gets the state and writes what it ends with,
    /// by the keys that both have.
    pub fn subgraph(self, name: &str, graph: impl Into<StateGraph>) -> TypedGraph<S> {
        self.with(|around| around.subgraph(name, graph.into()))
    }

    pub fn subgraph_with(
        self,
        name: &str,
        options: NodeOptions,
        graph: impl Into<StateGraph>,
    ) -> TypedGraph<S> {
        self.with(|around| around.subgraph_with(name, options, graph.into()))
    }

    /// After `from`, run `to`.
    pub fn edge(self, from: &str, to: &str) -> TypedGraph<S> {
        self.with(|graph| graph.edge(from, to))
    }

    /// Edges from each of these to the next.
    pub fn sequence(self, nodes: &[&str]) -> TypedGraph<S> {
        self.with(|graph| graph.sequence(nodes))
    }

    /// Once every node of `from` has run, run `to`.
    pub fn join(self, from: &[&str], to: &str) -> TypedGraph<S> {
        self.with(|graph| graph.join(from, to))
    }

    /// After `from`, go where `router` says. It sees the state after the writes of `from`.
    /// `targets` are the nodes that it may name.
    pub fn branch<F, I, T>(self, from: &str, targets: &[&str], router: F) -> TypedGraph<S>
    where
        F: Fn(&I) -> T + Send + Sync + 'static,
        I: FromState,
        T: Route,
    {
        self.with(|mut graph| {
            graph.note_keys(from, &I::keys());
            graph.branch(from, targets, move |state| router(&I::from_state(state)?).route())
        })
    }

    /// As [`TypedGraph::branch`], for a router that may name every node of the graph.
    pub fn branch_anywhere<F, I, T>(self, from: &str, router: F) -> TypedGraph<S>
    where
        F: Fn(&I) -> T + Send + Sync + 'static,
        I: FromState,
        T: Route,
    {
        self.with(|mut graph| {
            graph.note_keys(from, &I::keys());
            graph.branch_anywhere(from, move |state| router(&I::from_state(state)?).route())
        })
    }

    /// The keys that an input may write. All of them unless this is called.
    pub fn input_keys(self, keys: &[&str]) -> TypedGraph<S> {
        self.with(|graph| graph.input_keys(keys))
    }

    /// The keys that a finished run gives back. All of them unless this is called.
    pub fn output_keys(self, keys: &[&str]) -> TypedGraph<S> {
        self.with(|graph| graph.output_keys(keys))
    }

    /// Pauses before each of these nodes runs; `*` stands for all.
    pub fn interrupt_before(self, nodes: &[&str]) -> TypedGraph<S> {
        self.with(|graph| graph.interrupt_before(nodes))
    }

    /// Pauses after each of these nodes has run; `*` stands for all.
    pub fn interrupt_after(self, nodes: &[&str]) -> TypedGraph<S> {
        self.with(|graph| graph.interrupt_after(nodes))
    }

    /// What this graph keeps of itself when it runs inside a node.
    pub fn persistence(self, persistence: Persistence) -> TypedGraph<S> {
        self.with(|graph| graph.persistence(persistence))
    }

    /// Checks the graph and makes it runnable, as [`StateGraph::compile`] does.
    pub fn compile(
        self,
        saver: Option<Arc<dyn Saver>>,
        doors: &Doors,
        options: Options,
    ) -> Result<CompiledGraph, GraphError> {
        self.graph.compile(saver, doors, options)
    }
}
