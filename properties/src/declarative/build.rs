//! From a description to a graph.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use durasim_runtime::channels::Reducer;
use durasim_runtime::graph::StateError;
use durasim_runtime::{NodeContext, StateGraph, Value};
use futures::future::BoxFuture;

use super::program::Program;
use super::python::python_str;
use super::spec::{Action, ConditionalSpec, GraphSpec, OneOrMany, ReducerSpec};

/// Performs every effect, given the node that asks for it and the effect's label. It passes the gate
/// itself ([`NodeContext::effect`]).
pub type EffectSink =
    Arc<dyn for<'a> Fn(&'a NodeContext, &'a str) -> BoxFuture<'a, ()> + Send + Sync>;

/// Why a graph cannot be built from its description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("the runtime does not have: {}", .0.join("; "))]
    Unsupported(Vec<String>),
    #[error("conditional edge out of {from:?}: {problem}")]
    BadConditional { from: String, problem: &'static str },
}

/// What a description asks for that the runtime does not have; empty when it can be built.
pub fn unsupported(spec: &GraphSpec) -> Vec<String> {
    let mut missing = Vec::new();
    for (name, node) in &spec.nodes {
        let asks = [
            (node.subgraph.is_some(), "is a subgraph"),
            (node.defer, "is deferred"),
            (node.retry.is_some(), "has a retry policy"),
        ];
        let asked = asks.iter().filter(|(asked, _)| *asked);
        missing.extend(asked.map(|(_, what)| format!("node {name:?} {what}")));
    }
    if spec.actions().iter().any(|action| matches!(action, Action::Goto { .. })) {
        missing.push("a node returns a command (goto)".to_owned());
    }
    for conditional in spec.conditional_edges.iter().filter(|c| c.sends.is_some()) {
        missing.push(format!("the conditional edge out of {:?} sends", conditional.from));
    }
    let statics = [("before", &spec.interrupt_before), ("after", &spec.interrupt_after)];
    for (when, _) in statics.iter().filter(|(_, nodes)| nodes.is_some()) {
        missing.push(format!("static interrupts (interrupt_{when})"));
    }
    missing
}

/// Builds the graph. Each call gives a graph with raise counts of its own.
pub fn build(name: &str, spec: &GraphSpec, sink: EffectSink) -> Result<StateGraph, BuildError> {
    let missing = unsupported(spec);
    if !missing.is_empty() {
        return Err(BuildError::Unsupported(missing));
    }
    let mut graph = StateGraph::new(name);
    for (channel, spec) in &spec.channels {
        graph = match spec.reducer {
            ReducerSpec::LastValue => graph.key(channel),
            ReducerSpec::Append => graph.reduced_key(channel, Reducer::append()),
            ReducerSpec::Add => graph.reduced_key(channel, Reducer::add()),
        };
    }
    for (node, spec) in &spec.nodes {
        let program = Arc::new(Program {
            node: node.clone(),
            actions: spec.actions.clone(),
            raised: AtomicU64::new(0),
            sink: sink.clone(),
        });
        graph = graph.node(node, move |input, context| program.clone().run(input, context));
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
    Ok(graph)
}

fn branch(graph: StateGraph, spec: &ConditionalSpec) -> Result<StateGraph, BuildError> {
    let bad = |problem| BuildError::BadConditional { from: spec.from.clone(), problem };
    let channel = spec.channel.clone().ok_or_else(|| bad("it names no channel to look at"))?;
    let default = spec.default.clone().ok_or_else(|| bad("it has no default"))?.to_vec();
    let table = spec.table.clone();
    let mut targets: Vec<String> = table.values().flat_map(OneOrMany::to_vec).collect();
    targets.extend(default.iter().cloned());
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    Ok(graph.branch(&spec.from, &targets, move |state| -> Result<_, StateError> {
        let value = python_str(state.value(&channel).unwrap_or(&Value::Nil));
        Ok(table.get(&value).map_or_else(|| default.clone(), OneOrMany::to_vec))
    }))
}
