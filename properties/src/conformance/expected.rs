//! What of a recorded trace the runtime can be held against.
//!
//! Only things that it has no counterpart for are taken out; no value is changed.

use serde_json::Value as Json;

use super::prepare::Prepared;

pub(super) fn reduce(recorded: &Json, prepared: &Prepared, has_indexes: bool) -> Json {
    let mut expected = recorded.clone();
    let raised = prepared.graph.raised();
    for operation in list(&mut expected["ops"]) {
        drop_own_text(operation, &raised);
    }
    for (_, thread) in expected["threads"].as_object_mut().into_iter().flatten() {
        drop_own_text(&mut thread["final"], &raised);
        for checkpoint in list(&mut thread["checkpoints"]) {
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

/// The items of a list; none when it is not one.
fn list(json: &mut Json) -> &mut [Json] {
    json.as_array_mut().map_or(&mut [], Vec::as_mut_slice)
}
