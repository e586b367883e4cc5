//! Prepare something, ask for approval, go on. The approving node has an effect in front of its
//! question, which runs again when the answer comes.

use durasim_runtime::{END, NodeContext, START, State, StateGraph, Update};
use serde_json::json;

use crate::graph_world::GraphWorld;

pub(super) fn graph(world: &GraphWorld) -> StateGraph {
    let world = world.clone();
    let prepare = |_, _: NodeContext| async move {
        Ok(Update::new().set("prepared_payload", "draft-1").set("status", "prepared"))
    };
    let approve = move |state: State, context: NodeContext| {
        let world = world.clone();
        async move {
            world.effect_named(&context, "before_interrupt").await;
            let payload: String = state.get("prepared_payload")?;
            let answer =
                context.interrupt(json!({ "question": "Approve?", "payload": payload }))?;
            world.effect_named(&context, "after_interrupt").await;
            let approved = answer.as_bool().unwrap_or(false);
            let status = if approved { "approved" } else { "rejected" };
            Ok(Update::new().set("approved", approved).set("status", status))
        }
    };
    ["request_id", "prepared_payload", "status", "approved"]
        .into_iter()
        .fold(StateGraph::new("approval"), StateGraph::key)
        .node("prepare", prepare)
        .node("approve", approve)
        .edge(START, "prepare")
        .edge("prepare", "approve")
        .edge("approve", END)
}
