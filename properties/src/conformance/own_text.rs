//! Leaves the wording of LangGraph's own errors out of a comparison.
//!
//! A recorded error that the graph raised itself has the graph's text, which counts. Of one that
//! LangGraph made only the class does.

use serde_json::Value as Json;

/// Works on a whole trace. `raised` are the classes that nodes raise themselves.
pub(super) fn drop_own_text(trace: &mut Json, raised: &[&str]) {
    match trace {
        Json::Array(items) => items.iter_mut().for_each(|item| drop_own_text(item, raised)),
        Json::Object(entries) => {
            let is_error_row = entries.get("channel").is_some_and(|name| name == "__error__");
            for (key, value) in entries.iter_mut() {
                match value {
                    Json::String(text) if key == "error" || (is_error_row && key == "value") => {
                        drop_text_of(text, raised);
                    }
                    Json::Object(error) if key == "error" => {
                        if !error["class"].as_str().is_some_and(|class| raised.contains(&class)) {
                            error.shift_remove("message");
                        }
                    }
                    inner => drop_own_text(inner, raised),
                }
            }
        }
        _ => {}
    }
}

/// Of `Class(text)`, only the class, unless the graph raises it.
fn drop_text_of(repr: &mut String, raised: &[&str]) {
    let class = repr.split('(').next().unwrap_or_default();
    if !raised.contains(&class) {
        *repr = class.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_what_the_graph_says() {
        let mut trace = json!({
            "error": { "class": "GraphRecursionError", "message": "too far" },
            "tasks": [{ "error": "ValueError('boom')" }, { "error": "TimeoutError('late')" }],
            "writes": [{ "channel": "__error__", "value": "GraphRecursionError('too far')" },
                       { "channel": "x", "value": "GraphRecursionError('too far')" }],
        });
        drop_own_text(&mut trace, &["ValueError"]);
        assert_eq!(
            trace,
            json!({
                "error": { "class": "GraphRecursionError" },
                "tasks": [{ "error": "ValueError('boom')" }, { "error": "TimeoutError" }],
                "writes": [{ "channel": "__error__", "value": "GraphRecursionError" },
                           { "channel": "x", "value": "GraphRecursionError('too far')" }],
            })
        );
    }
}
