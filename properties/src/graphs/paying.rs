//! A booking whose charge goes to the payment provider: plan, charge, notify. The booking's id comes
//! with the client's request, so that a repeated request means the same charge.

use std::time::Duration;

use durasim_runtime::channels::Reducer;
use durasim_runtime::{END, NodeContext, START, State, StateGraph, Update};

use crate::graph_world::GraphWorld;
use crate::payment::Keying;

const CENTS: u64 = 12_500;

pub(super) fn graph(world: &GraphWorld, keying: Keying) -> StateGraph {
    let charging = world.clone();
    let charge = move |state: State, context: NodeContext| {
        let world = charging.clone();
        async move {
            let booking: String = state.get("booking")?;
            world.charge(&context, keying, &booking, CENTS).await?;
            Ok(Update::new().set("steps", [context.node()]))
        }
    };
    let graph = StateGraph::new("paying").key("booking").reduced_key("steps", Reducer::append());
    ["plan", "notify"]
        .into_iter()
        .fold(graph, |graph, name| {
            let world = world.clone();
            graph.node(name, move |_, context: NodeContext| {
                let world = world.clone();
                async move {
                    context.sleep(Duration::from_millis(100)).await;
                    world.effect(&context).await;
                    Ok(Update::new().set("steps", [context.node()]))
                }
            })
        })
        .node("charge", charge)
        .edge(START, "plan")
        .edge("plan", "charge")
        .edge("charge", "notify")
        .edge("notify", END)
}
