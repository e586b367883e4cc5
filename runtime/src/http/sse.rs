//! Server-sent events (WHATWG HTML, section 9.2).

use axum::body::Bytes;
use serde_json::{Value as Json, json};

use super::answer::Fault;
use crate::checkpoint::{codec, reserved};
use crate::stream::Chunk;
use crate::value::{self, Value};

/// Of a small event, in bytes.
const ROOM: usize = 256;

/// One event: JSON without line breaks on one `data` line.
pub(super) fn event(name: &str, data: &Json) -> Bytes {
    let mut text = Vec::with_capacity(ROOM);
    for part in ["event: ", name, "\ndata: "] {
        text.extend_from_slice(part.as_bytes());
    }
    serde_json::to_writer(&mut text, data).expect("keys are texts, and a Vec takes all");
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// A chunk under its mode; one of a graph inside another has its namespace after the mode, as
/// `updates|<node>:<task id>`.
pub(super) fn chunk(chunk: &Chunk) -> Bytes {
    let data = readable(&chunk.data);
    match chunk.namespace.is_empty() {
        true => event(chunk.mode.name(), &data),
        false => event(&format!("{}|{}", chunk.mode.name(), chunk.namespace.join("|")), &data),
    }
}

/// Data as JSON. Questions show with their id, by which they can be answered; as stored, they are
/// objects of Python's.
fn readable(data: &Value) -> Json {
    let mut json = value::to_json(data);
    let entries = data.as_map().map_or(&[][..], Vec::as_slice);
    let asked = entries.iter().find(|(key, _)| key.as_str() == Some(reserved::INTERRUPT));
    if let Some(Value::Array(asked)) = asked.map(|(_, asked)| asked) {
        let question = |asked: &Value| match codec::read_interrupt(asked) {
            Some((question, id)) => json!({ "value": value::to_json(&question), "id": id }),
            None => value::to_json(asked),
        };
        json[reserved::INTERRUPT] = asked.iter().map(question).collect();
    }
    json
}

/// A failed run says so: a crash never looks like a clean close.
pub(super) fn error(fault: &Fault) -> Bytes {
    event("error", &json!({ "error": fault.class, "message": fault.message }))
}

/// Chunks were left out here.
pub(super) fn gap(left_out: u64) -> Bytes {
    event("gap", &json!({ "left_out": left_out }))
}

/// The run has ended and everything was said.
pub(super) fn end() -> Bytes {
    event("end", &Json::Object(Default::default()))
}
