//! The booking graph: plan, charge, notify, finish. Each sleeps, executes its effect, and leaves
//! its own name. The delays make the moment of a disconnect observable: `notify` is long.

use std::time::Duration;

use durasim_runtime::channels::Reducer;
use durasim_runtime::{END, NodeContext, START, StateGraph, Update};

use crate::registry::GraphWorld;

const STEPS: [(&str, u64); 4] = [("plan", 300), ("charge", 300), ("notify", 1500), ("finish", 500)];

pub(super) fn graph(world: &GraphWorld) -> StateGraph {
    let mut graph = StateGraph::new("booking").reduced_key("steps", Reducer::append());
    let mut previous = START;
    for (name, delay) in STEPS {
        let world = world.clone();
        graph = graph.node(name, move |_, context: NodeContext| {
            let world = world.clone();
            async move {
                context.sleep(Duration::from_millis(delay)).await;
                world.effect(&context).await;
                Ok(Update::new().set("steps", [context.node()]))
            }
        });
        graph = graph.edge(previous, name);
        previous = name;
    }
    graph.edge(previous, END)
}
