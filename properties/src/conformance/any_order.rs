//! What two runs of one case must agree on when a scheduler chooses the order inside super-steps.
//!
//! Rows and states must be equal. Events keep the order of super-steps: a root checkpoint that is
//! shown, or else the root's values, ends one; inside it any order will do. Effects are counted.

use std::collections::BTreeMap;

use serde_json::Value as Json;

/// Why more than the order inside super-steps varies with the schedule, for cases by the beginning
/// of their names.
const VARIES: [(&str, &str); 3] = [
    (
        "subgraph_close",
        "how far a graph inside gets while its run is being closed depends on its store's speed",
    ),
    (
        "subgraph_send",
        "graphs inside that run side by side make their checkpoints in any order, which ids tell",
    ),
    (
        "start_beside_answer",
        "an answer stays pending if the entry ends before a node beside it takes the answer",
    ),
];

pub(super) fn reason_to_vary(case: &str) -> Option<&'static str> {
    let found = VARIES.iter().find(|(name, _)| case.starts_with(name));
    found.map(|(_, reason)| *reason)
}

/// Puts everything that may come in any order into one and the same.
pub(super) fn sort(trace: &mut Json) {
    sort_list(&mut trace["effects"]);
    for operation in trace["ops"].as_array_mut().into_iter().flatten() {
        sort_list(&mut operation["effects"]);
        if let Some(events) = operation.get_mut("events").and_then(Json::as_array_mut) {
            sort_steps(events);
        }
    }
    forget_numbers(trace);
}

fn sort_list(list: &mut Json) {
    if let Some(items) = list.as_array_mut() {
        items.sort_by_cached_key(text);
    }
}

fn sort_steps(events: &mut [Json]) {
    let is_root = |event: &Json, mode: &str| event["mode"] == mode && event.get("ns").is_none();
    let mark = match events.iter().any(|event| is_root(event, "checkpoints")) {
        true => "checkpoints",
        false => "values",
    };
    for step in events.chunk_by_mut(|event, _| !is_root(event, mark)) {
        step.sort_by_cached_key(|event| {
            let mut plain = event.clone();
            forget_numbers(&mut plain);
            (is_root(event, mark), text(&plain))
        });
    }
}

/// The same for equal values: keys in alphabetical order.
fn text(json: &Json) -> String {
    match json {
        Json::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Json::Object(entries) => {
            let sorted: BTreeMap<&String, String> =
                entries.iter().map(|(key, value)| (key, text(value))).collect();
            format!("{sorted:?}")
        }
        plain => plain.to_string(),
    }
}

/// Interrupts are numbered as they show; siblings may ask in any order.
fn forget_numbers(trace: &mut Json) {
    match trace {
        Json::Array(items) => items.iter_mut().for_each(forget_numbers),
        Json::Object(entries) => {
            if let Some(number) = entries.get_mut("$interrupt") {
                *number = Json::Bool(true);
            }
            entries.values_mut().for_each(forget_numbers);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_order_inside_a_step_is_free() {
        let update = |node: &str| json!({ "mode": "updates", "data": { node: null } });
        let checkpoint = |step: i64| json!({ "mode": "checkpoints", "step": step });
        let trace = |nodes: [&str; 3]| {
            let [a, b, c] = nodes;
            let events = [update(a), update(b), checkpoint(1), update(c), checkpoint(2)];
            let mut trace =
                json!({ "effects": [a, b], "ops": [{ "effects": [], "events": events }] });
            sort(&mut trace);
            trace
        };
        assert_ne!(trace(["a", "b", "c"]), trace(["a", "c", "b"]));
        let (mut one, mut other) = (trace(["a", "b", "c"]), trace(["b", "a", "c"]));
        assert_eq!(one["ops"].take(), other["ops"].take());
    }
}
