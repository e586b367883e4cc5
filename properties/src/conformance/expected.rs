//! What of a recorded trace the runtime can be held against.
//!
//! Only things that it has no counterpart for are taken out; no value is changed.

use serde_json::Value as Json;

use super::prepare::{Prepared, mode};

pub(super) fn reduce(recorded: &Json, prepared: &Prepared, has_indexes: bool) -> Json {
    let mut expected = recorded.clone();
    let raised = prepared.graph.raised();
    for operation in list(&mut expected["ops"]) {
        if let Some(Json::Array(events)) = operation.get_mut("events") {
            events.retain(|event| event["mode"].as_str().and_then(mode).is_some());
        }
        drop_own_text(operation, &raised);
        if let Some(state) = operation.get_mut("state") {
            drop_paths(state);
        }
        if let Some(history) = operation.get_mut("history") {
            list(history).iter_mut().for_each(drop_paths);
        }
    }
    for (_, thread) in expected["threads"].as_object_mut().into_iter().flatten() {
        drop_paths(&mut thread["final"]);
        drop_own_text(&mut thread["final"], &raised);
        for checkpoint in list(&mut thread["checkpoints"]) {
            drop_paths(checkpoint);
            for write in list(&mut checkpoint["writes"]) {
                if let (Json::Object(write), false) = (write, has_indexes) {
                    write.shift_remove("idx");
                }
            }
        }
    }
    expected
}

/// The texts of LangGraph's own errors are LangGraph's; those that a graph raises itself are not.
fn drop_own_text(holder: &mut Json, raised: &[&str]) {
    if let Some(Json::Object(error)) = holder.get_mut("error")
        && !error["class"].as_str().is_some_and(|class| raised.contains(&class))
    {
        error.shift_remove("message");
    }
}

/// The path of a task is not part of a snapshot here. That of an edge's task says its node's name
/// once more.
fn drop_paths(state: &mut Json) {
    for task in state.get_mut("tasks").map_or(&mut [][..], list) {
        if let Json::Object(task) = task {
            task.shift_remove("path");
        }
    }
}

/// The items of a list; none when it is not one.
fn list(json: &mut Json) -> &mut [Json] {
    json.as_array_mut().map_or(&mut [], Vec::as_mut_slice)
}
