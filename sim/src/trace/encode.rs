//! The canonical bytes of an event, for hashing only.
//!
//! Every string is preceded by its length and every optional by a marker, so no two different lists
//! share an encoding.

use xxhash_rust::xxh3::Xxh3;

use super::{Event, Labels, Value};

pub(super) fn hash(events: &[Event]) -> u64 {
    let mut hasher = Xxh3::new();
    // Of one event at a time: as a whole they would push out of the cache what runs next.
    let mut out = Vec::with_capacity(ROOM);
    for event in events {
        out.clear();
        out.extend_from_slice(&event.seq.to_le_bytes());
        out.extend_from_slice(&(event.at.as_nanos() as u64).to_le_bytes());
        text(&mut out, &event.process);
        labels(&mut out, &event.labels);
        text(&mut out, event.name);
        out.extend_from_slice(&(event.fields.len() as u32).to_le_bytes());
        for (name, v) in &event.fields {
            text(&mut out, name);
            value(&mut out, v);
        }
        hasher.update(&out);
    }
    hasher.digest()
}

/// For most events, in bytes.
const ROOM: usize = 1024;

fn labels(out: &mut Vec<u8>, labels: &Labels) {
    let Labels { request, run, thread, checkpoint, task } = labels;
    for label in [request, run, thread, checkpoint, task] {
        match label {
            None => out.push(0),
            Some(s) => {
                out.push(1);
                text(out, s);
            }
        }
    }
}

fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U64(n) => {
            out.push(0);
            out.extend_from_slice(&n.to_le_bytes());
        }
        Value::I64(n) => {
            out.push(1);
            out.extend_from_slice(&n.to_le_bytes());
        }
        Value::Bool(b) => out.extend_from_slice(&[2, u8::from(*b)]),
        Value::Str(s) => {
            out.push(3);
            text(out, s);
        }
    }
}

fn text(out: &mut Vec<u8>, s: &str) {
    out.reserve(4 + s.len());
    out.extend_from_slice(&(s.len() as u32).to_le_bytes());
    out.extend_from_slice(s.as_bytes());
}
