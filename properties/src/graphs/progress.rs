//! Six chunks of visible progress, 60 ms apart: once as events of one long node, once as steps.

use std::time::Duration;

use durasim_runtime::{END, NodeContext, START, State, StateGraph, Update};
use serde_json::json;

use crate::graph_world::GraphWorld;

/// What the person gets to see.
pub const CHUNKS: [&str; 6] = ["A ", "long ", "answer, ", "piece ", "by ", "piece"];
const PAUSE: Duration = Duration::from_millis(60);

fn keys(name: &str) -> StateGraph {
    let keys = ["request_id", "status", "emitted_chunks", "final_text", "step_index"];
    keys.into_iter().fold(StateGraph::new(name), StateGraph::key)
}

fn progress(status: &str, chunks: &[String]) -> Update {
    Update::new()
        .set("status", status)
        .set("emitted_chunks", chunks)
        .set("final_text", chunks.concat())
        .set("step_index", chunks.len())
}

/// One node emits every chunk and returns them all at its end.
pub(super) fn monolithic(_: &GraphWorld) -> StateGraph {
    let stream = |_, context: NodeContext| async move {
        let mut emitted: Vec<String> = Vec::new();
        for chunk in CHUNKS {
            emitted.push(chunk.to_owned());
            context.emit(json!({ "kind": "visible_chunk", "token": chunk }))?;
            context.sleep(PAUSE).await;
        }
        Ok(progress("completed", &emitted))
    };
    keys("monolithic")
        .node("long_streaming_node", stream)
        .edge(START, "long_streaming_node")
        .edge("long_streaming_node", END)
}

/// One node appends one chunk; a conditional edge brings it back until all are there.
pub(super) fn stepwise(_: &GraphWorld) -> StateGraph {
    let step = |state: State, context: NodeContext| async move {
        let index: usize = state.get_or("step_index", 0)?;
        let mut chunks: Vec<String> = state.get_or("emitted_chunks", vec![])?;
        context.sleep(PAUSE).await;
        chunks.push(CHUNKS[index].to_owned());
        let done = chunks.len() == CHUNKS.len();
        Ok(progress(if done { "completed" } else { "running" }, &chunks))
    };
    let next = |state: &State| {
        let done = state.get::<usize>("step_index")? >= CHUNKS.len();
        Ok(vec![if done { END } else { "durable_step" }.to_owned()])
    };
    keys("stepwise").node("durable_step", step).edge(START, "durable_step").branch(
        "durable_step",
        &["durable_step", END],
        next,
    )
}
