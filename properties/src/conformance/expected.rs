//! What of a recorded trace the runtime can be held against.
//!
//! Only things that it has no counterpart for are taken out; no value is changed.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::own_text::drop_own_text;
use super::prepare::Prepared;

pub(super) fn reduce(recorded: &Json, prepared: &Prepared, has_indexes: bool) -> Json {
    let mut expected = recorded.clone();
    drop_own_text(&mut expected, &prepared.graph.raised());
    for (_, thread) in expected["threads"].as_object_mut().into_iter().flatten() {
        for checkpoint in list(&mut thread["checkpoints"]) {
            let Some(writes) = checkpoint["writes"].as_array_mut() else { continue };
            // As the observed ones: what labels do not tell apart comes by what it says.
            let text = |write: &Json, key: &str| write[key].as_str().unwrap_or_default().to_owned();
            let place = |write: &Json| (text(write, "task"), write["idx"].as_i64());
            let mut places = BTreeSet::new();
            let shared = writes.iter().map(place).filter(|place| !places.insert(place.clone()));
            let shared: BTreeSet<String> = shared.map(|(task, _)| task).collect();
            writes.sort_by_cached_key(|write| {
                let (task, index) = place(write);
                let index = index.filter(|_| has_indexes || !shared.contains(&task));
                (task, index, text(write, "channel"), write["value"].to_string())
            });
            for write in writes {
                if let (Json::Object(write), false) = (write, has_indexes) {
                    write.shift_remove("idx");
                }
            }
        }
    }
    expected
}

/// The items of a list; none when it is not one.
fn list(json: &mut Json) -> &mut [Json] {
    json.as_array_mut().map_or(&mut [], Vec::as_mut_slice)
}
