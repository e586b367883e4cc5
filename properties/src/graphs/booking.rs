//! The booking graph: plan, charge, notify, finish. Each sleeps, executes its effect, and leaves
//! its own name. The delays make the moment of a disconnect observable: `notify` is long.

use std::time::Duration;

use durasim_runtime::channels::Reducer;
use durasim_runtime::{END, NodeContext, START, StateGraph, Update};

use crate::graph_world::GraphWorld;

const STEPS: [(&str, u64); 4] = [("plan", 300), ("charge", 300), ("notify", 1500), ("finish", 500)];

pub(super) fn graph(world: &GraphWorld) -> StateGraph {
    let mut graph = with_steps("booking", world, &STEPS);
    let mut previous = START;
    for (name, _) in STEPS {
        graph = graph.edge(previous, name);
        previous = name;
    }
    graph.edge(previous, END)
}

/// The same with two notifications at once, both awaited before the end.
pub(super) fn fan(world: &GraphWorld) -> StateGraph {
    let steps =
        [("plan", 300), ("charge", 300), ("notify_a", 1500), ("notify_b", 1500), ("finish", 500)];
    with_steps("fan", world, &steps)
        .edge(START, "plan")
        .edge("plan", "charge")
        .edge("charge", "notify_a")
        .edge("charge", "notify_b")
        .join(&["notify_a", "notify_b"], "finish")
        .edge("finish", END)
}

/// Nodes that sleep (milliseconds), execute their effect and leave their name, without edges.
fn with_steps(name: &str, world: &GraphWorld, steps: &[(&str, u64)]) -> StateGraph {
    let graph = StateGraph::new(name).reduced_key("steps", Reducer::append());
    steps.iter().fold(graph, |graph, &(name, delay)| {
        let world = world.clone();
        graph.node(name, move |_, context: NodeContext| {
            let world = world.clone();
            async move {
                context.sleep(Duration::from_millis(delay)).await;
                world.effect(&context).await;
                Ok(Update::new().set("steps", [context.node()]))
            }
        })
    })
}
