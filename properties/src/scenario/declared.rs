//! Graphs inside scenario files: the field `declared`, the graph as data.
//!
//! ```json
//! "graph": "two-steps",
//! "declared": {
//!   "channels": { "steps": { "reducer": "append" } },
//!   "nodes": {
//!     "plan":   { "actions": [{ "do": "sleep", "ms": 100 }, { "do": "effect", "label": "plan" },
//!                             { "do": "write", "values": { "steps": { "$list_node": true } } }] },
//!     "charge": { "actions": [{ "do": "effect", "label": "charge" },
//!                             { "do": "write", "values": { "steps": { "$list_node": true } } }] }
//!   },
//!   "edges": [["START", "plan"], ["plan", "charge"], ["charge", "END"]]
//! }
//! ```
//!
//! It is the format of the recorded cases (their `spec.graph`):
//!
//! * `channels`: each has a `reducer`, `last_value`, `append` (lists) or `add` (integers).
//! * `nodes`: each has `actions`, which run in order: `sleep` (`ms`), `emit` (`value`), `effect`
//!   (`label`), `write` (`values`), `interrupt` (`payload`), `raise` (`error`, `message`, `times`),
//!   `if` (`channel`, `eq`, `then`, `else`), `goto` (`to`: a node, or a list of them). Or `defer`.
//! * Values are JSON, or `{"$node": true}`, `{"$list_node": true}`, `{"$get": channel}`,
//!   `{"$add": [channel, k]}`, `{"$resume": i}`, `{"$list": [..]}`.
//! * `edges`: `[from, to]`, or `[[from, ..], to]` for a join. `conditional_edges`: `from`, `channel`,
//!   `table` (by the text of the channel's value), `default`.
//! * `interrupt_before`, `interrupt_after`: static interrupts.
//!
//! Two rules are of scenarios alone, so that effects can be accounted for: every effect has a label of
//! its own, and none depends on an `if`. And one convention: a channel `steps` that appends is the
//! transcript when exactly the nodes with an effect write to it, each its own name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use crate::declarative::{
    Action, Direction, EffectSink, Expression, GraphSpec, NodeSpec, ReducerSpec, build, flatten,
};
use crate::graph_world::GraphWorld;
use crate::registry::GraphEntry;

/// The channel that is a transcript when it is used as one.
const TRANSCRIPT: &str = "steps";

/// The graph of a scenario, or what is wrong with it, beginning with the field.
pub(crate) fn entry(name: &str, spec: &GraphSpec) -> Result<GraphEntry, String> {
    refuse_unaccountable(spec)?;
    let labels = effects(spec)?;
    let effects: Vec<String> = labels.keys().cloned().collect();
    let nowhere: EffectSink = Arc::new(|_, _| Box::pin(async {}));
    build(name, spec, nowhere).map_err(|problem| format!("declared: {problem}"))?;
    let (name, graph) = (name.to_owned(), spec.clone());
    let build = move |world: &GraphWorld| {
        let world = world.clone();
        let sink: EffectSink = Arc::new(move |context, label| {
            let world = world.clone();
            Box::pin(async move { world.effect_named(context, label).await })
        });
        build(&name, &graph, sink).expect("it could be built before")
    };
    Ok(GraphEntry {
        build: Arc::new(build),
        transcript: keeps_a_transcript(spec, &effects).then(|| TRANSCRIPT.to_owned()),
        effects: Some(effects),
        labels,
    })
}

/// The account counts one execution for each recorded task of a graph, by the names of its nodes:
/// what runs a node several times in a step, or inside another graph, is refused.
fn refuse_unaccountable(spec: &GraphSpec) -> Result<(), String> {
    for (name, node) in &spec.nodes {
        let field = format!("declared.nodes.{name}");
        if node.subgraph.is_some() {
            return Err(format!("{field}.subgraph: effects inside cannot be accounted for"));
        }
        if node.retry.is_some() {
            return Err(format!(
                "{field}.retry: effects of several attempts cannot be accounted for"
            ));
        }
        for action in flatten(&node.actions) {
            if let Action::Goto { to, .. } = action
                && to.as_slice().iter().any(|to| matches!(to, Direction::Send { .. }))
            {
                return Err(format!("{field}.actions: a Send's effects cannot be accounted for"));
            }
        }
    }
    match spec.conditional_edges.iter().find(|edge| edge.sends.is_some()) {
        None => Ok(()),
        Some(edge) => Err(format!(
            "declared.conditional_edges: a Send's effects cannot be accounted for (from {:?})",
            edge.from
        )),
    }
}

/// Nodes with an effect, and the labels of each.
fn effects(spec: &GraphSpec) -> Result<BTreeMap<String, Vec<String>>, String> {
    let (mut nodes, mut labels) = (BTreeMap::<String, Vec<String>>::new(), BTreeSet::new());
    for (name, node) in &spec.nodes {
        for (i, action) in node.actions.iter().enumerate() {
            let field = format!("declared.nodes.{name}.actions[{i}]");
            match action {
                Action::Effect { label } if !labels.insert(label) => {
                    return Err(format!("{field}.label: {label:?} is the label of another effect"));
                }
                Action::Effect { label } => {
                    nodes.entry(name.clone()).or_default().push(label.clone());
                }
                Action::If { then, otherwise, .. } if has_effect(then) || has_effect(otherwise) => {
                    let problem = "an effect inside `if` cannot be accounted for; give it a node \
                                   of its own";
                    return Err(format!("{field}: {problem}"));
                }
                _ => {}
            }
        }
    }
    Ok(nodes)
}

fn has_effect(actions: &[Action]) -> bool {
    actions.iter().any(|action| match action {
        Action::Effect { .. } => true,
        Action::If { then, otherwise, .. } => has_effect(then) || has_effect(otherwise),
        _ => false,
    })
}

fn keeps_a_transcript(spec: &GraphSpec, effects: &[String]) -> bool {
    let appends = spec.channels.get(TRANSCRIPT).map(|channel| channel.reducer);
    appends == Some(ReducerSpec::Append)
        && spec.nodes.iter().all(|(name, node)| {
            let found = transcript_of(name, node);
            if effects.contains(name) { found == [true] } else { found.is_empty() }
        })
}

/// What a node writes to the transcript, action by action: is it just its own name?
fn transcript_of(name: &str, node: &NodeSpec) -> Vec<bool> {
    let own = |value: &Expression| match value {
        Expression::ListNode => true,
        Expression::List(items) => *items == [Expression::Node],
        Expression::Literal(value) => *value == json!([name]),
        _ => false,
    };
    let written = |action: &Action| match action {
        Action::Write { values } => values.get(TRANSCRIPT).map(own),
        Action::If { then, otherwise, .. } => {
            let inside = NodeSpec::of(then.iter().chain(otherwise).cloned().collect());
            (!transcript_of(name, &inside).is_empty()).then_some(false)
        }
        _ => None,
    };
    node.actions.iter().filter_map(written).collect()
}
