//! From a description to a graph.

use std::sync::Arc;
use std::time::Duration;

use durasim_runtime::channels::Reducer;
use durasim_runtime::graph::{self, Goto, NodeOptions, RetryOn, RetryPolicy, StateError};
use durasim_runtime::{NodeContext, StateGraph, Value, value};
use futures::future::BoxFuture;

use super::direction::Direction;
use super::program::Program;
use super::python::python_str;
use super::raises::Raises;
use super::spec::{Action, ConditionalSpec, GraphSpec, NodeSpec, OneOrMany, ReducerSpec, flatten};

/// Performs every effect, given the node that asks for it and the effect's label. It passes the gate
/// itself ([`NodeContext::effect`]).
pub type EffectSink =
    Arc<dyn for<'a> Fn(&'a NodeContext, &'a str) -> BoxFuture<'a, ()> + Send + Sync>;

/// Why a graph cannot be built from its description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("conditional edge out of {from:?}: {problem}")]
    BadConditional { from: String, problem: &'static str },
    #[error("node {node:?}: {problem}")]
    BadNode { node: String, problem: &'static str },
}

/// Builds the graph. Each call gives a graph with raise counts of its own.
pub fn build(name: &str, spec: &GraphSpec, sink: EffectSink) -> Result<StateGraph, BuildError> {
    build_counting(name, spec, sink, &Raises::default())
}

/// As [`build`], with the counts in sight.
pub fn build_counting(
    name: &str,
    spec: &GraphSpec,
    sink: EffectSink,
    raises: &Raises,
) -> Result<StateGraph, BuildError> {
    build_inside("", name, spec, sink, raises)
}

/// `place` is the path of the node that the graph is in, with a slash behind it.
fn build_inside(
    place: &str,
    name: &str,
    spec: &GraphSpec,
    sink: EffectSink,
    raises: &Raises,
) -> Result<StateGraph, BuildError> {
    let mut graph = StateGraph::new(name);
    for (channel, spec) in &spec.channels {
        graph = match spec.reducer {
            ReducerSpec::LastValue => graph.key(channel),
            ReducerSpec::Append => graph.reduced_key(channel, Reducer::append()),
            ReducerSpec::Add => graph.reduced_key(channel, Reducer::add()),
        };
    }
    for (name, node) in &spec.nodes {
        let options = options(spec, node);
        graph = match &node.subgraph {
            Some(_) if !node.actions.is_empty() => {
                let problem = "it has both actions and a subgraph";
                return Err(BuildError::BadNode { node: name.clone(), problem });
            }
            Some(inside) => {
                let place = format!("{place}{name}/");
                let inside = build_inside(&place, name, inside, sink.clone(), raises)?;
                graph.subgraph_with(name, options, inside)
            }
            None => {
                let program = Arc::new(Program {
                    node: name.clone(),
                    path: format!("{place}{name}"),
                    actions: node.actions.clone(),
                    raises: raises.clone(),
                    sink: sink.clone(),
                });
                let run = move |input, context| program.clone().run(input, context);
                graph.node_with(name, options, run)
            }
        };
    }
    for edge in &spec.edges {
        graph = match &edge.0 {
            OneOrMany::One(from) => graph.edge(from, &edge.1),
            OneOrMany::Many(from) => {
                let from: Vec<&str> = from.iter().map(String::as_str).collect();
                graph.join(&from, &edge.1)
            }
        };
    }
    for conditional in &spec.conditional_edges {
        graph = branch(graph, conditional)?;
    }
    let list = |nodes: &Option<OneOrMany>| nodes.as_ref().map_or(vec![], OneOrMany::to_vec);
    let (before, after) = (list(&spec.interrupt_before), list(&spec.interrupt_after));
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let after: Vec<&str> = after.iter().map(String::as_str).collect();
    Ok(graph.interrupt_before(&before).interrupt_after(&after))
}

/// What a node's description says besides its actions. The nodes that its commands go to are named,
/// so that they count as reachable.
fn options(graph: &GraphSpec, node: &NodeSpec) -> NodeOptions {
    let mut options = NodeOptions::new();
    if node.defer {
        options = options.defer();
    }
    if let Some(retry) = &node.retry {
        let standard = RetryPolicy::default();
        options = options.retry(RetryPolicy {
            initial_interval: retry
                .initial_interval
                .map_or(standard.initial_interval, Duration::from_secs_f64),
            backoff_factor: 1.0,
            max_attempts: retry.max_attempts,
            jitter: false,
            retry_on: retry.retry_on.clone().map_or(RetryOn::Default, RetryOn::Classes),
            ..standard
        });
    }
    let own = flatten(&node.actions);
    let inside = node.subgraph.iter().flat_map(|graph| graph.actions());
    let named = own.into_iter().chain(inside).flat_map(|action| match action {
        Action::Goto { to, .. } => to.as_slice().iter().map(Direction::node).collect(),
        _ => vec![],
    });
    let known: Vec<&str> = named.filter(|name| graph.nodes.contains_key(*name)).collect();
    options.destinations(&known)
}

fn branch(graph: StateGraph, spec: &ConditionalSpec) -> Result<StateGraph, BuildError> {
    let bad = |problem| BuildError::BadConditional { from: spec.from.clone(), problem };
    let default = spec.default.as_ref().map_or(vec![], OneOrMany::to_vec);
    let targets = |names: Vec<String>| names.into_iter().map(Goto::from).collect::<Vec<_>>();
    if let Some(sends) = &spec.sends {
        let mut named: Vec<&str> = default.iter().map(String::as_str).collect();
        named.push(&sends.node);
        let (sends, otherwise) = (sends.clone(), targets(default.clone()));
        return Ok(graph.branch(&spec.from, &named, move |state| {
            let items = state.value(&sends.channel).and_then(Value::as_array);
            let items = items.map_or(&[][..], Vec::as_slice);
            if items.is_empty() {
                return Ok(otherwise.clone());
            }
            let argument = |item: &Value| value::map([(sends.arg_key.clone(), item.clone())]);
            let send = |item| Goto::Send(graph::Send::new(&sends.node, argument(item)));
            Ok(items.iter().map(send).collect())
        }));
    }
    let channel = spec.channel.clone().ok_or_else(|| bad("it names no channel to look at"))?;
    if default.is_empty() {
        return Err(bad("it has no default"));
    }
    let table = spec.table.clone();
    let mut named: Vec<String> = table.values().flat_map(OneOrMany::to_vec).collect();
    named.extend(default.iter().cloned());
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    Ok(graph.branch(&spec.from, &named, move |state| -> Result<_, StateError> {
        let value = python_str(state.value(&channel).unwrap_or(&Value::Nil));
        Ok(targets(table.get(&value).map_or_else(|| default.clone(), OneOrMany::to_vec)))
    }))
}
