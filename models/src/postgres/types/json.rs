//! jsonb: a JSON value as the server keeps it.
//!
//! Keys of an object are unique (the last one wins) and stand in order of length, then bytes.
//! Numbers are decimals, so `1.0` stays `1.0` and equals `1`.

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use super::{Decimal, json_read};
use crate::postgres::error::Result;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(Decimal),
    String(Arc<str>),
    Array(Vec<Json>),
    /// Sorted as the server sorts them; made by [`Json::object`].
    Object(Vec<(Arc<str>, Json)>),
}

impl Json {
    /// # Errors
    /// 22P02 for what is no JSON, 22P05 for `\u0000`, which the server cannot store.
    pub fn parse(text: &str) -> Result<Json> {
        json_read::parse(text)
    }

    /// Of equal keys the last one counts.
    pub fn object(mut entries: Vec<(Arc<str>, Json)>) -> Json {
        entries.sort_by(|(a, _), (b, _)| by_length(a, b));
        let mut unique: Vec<(Arc<str>, Json)> = Vec::with_capacity(entries.len());
        for entry in entries {
            match unique.last_mut() {
                Some(last) if last.0 == entry.0 => *last = entry,
                _ => unique.push(entry),
            }
        }
        Json::Object(unique)
    }

    /// The value of a key; `None` if it is no object or has none.
    pub fn key(&self, key: &str) -> Option<&Json> {
        let Json::Object(entries) = self else { return None };
        let found = entries.binary_search_by(|(known, _)| by_length(known, key)).ok()?;
        Some(&entries[found].1)
    }

    /// The element at an index, counted from the end if negative.
    pub fn index(&self, index: i64) -> Option<&Json> {
        let Json::Array(items) = self else { return None };
        let at = if index < 0 { index + i64::try_from(items.len()).ok()? } else { index };
        items.get(usize::try_from(at).ok()?)
    }

    /// What `->>` shows: a string without its quotes, nothing for null.
    pub fn as_text(&self) -> Option<Arc<str>> {
        match self {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_text().into()),
        }
    }

    /// The operator `@>`: does this contain `other`?
    /// <https://www.postgresql.org/docs/15/datatype-json.html#JSON-CONTAINMENT>
    pub fn contains(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(wanted)) => wanted
                .iter()
                .all(|(key, value)| self.key(key).is_some_and(|own| own.contains_inside(value))),
            (Json::Array(own), Json::Array(wanted)) => {
                wanted.iter().all(|value| own.iter().any(|own| own.contains_inside(value)))
            }
            // An array contains a bare scalar, at the top only.
            (Json::Array(own), scalar) if !matches!(scalar, Json::Object(_)) => {
                own.contains(scalar)
            }
            (own, other) => own == other,
        }
    }

    fn contains_inside(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(_)) | (Json::Array(_), Json::Array(_)) => {
                self.contains(other)
            }
            (own, other) => own == other,
        }
    }

    /// As the server writes it: a space behind each colon and comma.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => write!(out, "{number}").expect("strings take all"),
            Json::String(text) => write_string(out, text),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(entries) => {
                out.push('{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    write_string(out, key);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Rank of the kind in jsonb's order of values.
    fn rank(&self) -> u8 {
        match self {
            Json::Null => 0,
            Json::String(_) => 1,
            Json::Number(_) => 2,
            Json::Bool(_) => 3,
            Json::Array(_) => 4,
            Json::Object(_) => 5,
        }
    }
}

fn by_length(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => write!(out, "\\u{:04x}", u32::from(c)).expect("strings take all"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Objects above arrays above booleans above numbers above strings above null; containers by
/// length first.
impl Ord for Json {
    fn cmp(&self, other: &Json) -> Ordering {
        match (self, other) {
            (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
            (Json::Number(a), Json::Number(b)) => a.cmp(b),
            (Json::String(a), Json::String(b)) => a.cmp(b),
            (Json::Array(a), Json::Array(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            (Json::Object(a), Json::Object(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Json {
    fn partial_cmp(&self, other: &Json) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
