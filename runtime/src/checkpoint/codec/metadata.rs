//! Metadata as JSON text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value as Json;

use super::CodecError;
use crate::checkpoint::{Metadata, Source};

/// The step before that of a thread's first input.
const ANCHOR_STEP: i64 = -2;

/// UTF-8 JSON in Python's order: source, step, parents, then everything else. An anchor has no source
/// and no parents. Keys of `extra` that
/// carry one of those three names lose to the field.
pub fn encode_metadata(metadata: &Metadata) -> Vec<u8> {
    serde_json::to_vec(&InOrder(&without_nul(metadata))).expect("JSON with string keys is written")
}

struct InOrder<'a>(&'a Metadata);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Metadata { source, step, parents, extra } = self.0;
        let mut object = serializer.serialize_map(None)?;
        let named: &[&str] = match source {
            Source::Anchor => {
                object.serialize_entry("step", step)?;
                &["step"]
            }
            source => {
                object.serialize_entry("source", source.name())?;
                object.serialize_entry("step", step)?;
                object.serialize_entry("parents", parents)?;
                &["source", "step", "parents"]
            }
        };
        for (key, value) in extra {
            if !named.contains(&key.as_str()) {
                object.serialize_entry(key, value)?;
            }
        }
        object.end()
    }
}

/// LangGraph strips U+0000 from every metadata string (Postgres would refuse it), with every
/// saver; only at the top level.
pub fn without_nul(metadata: &Metadata) -> Cow<'_, Metadata> {
    let has_nul = |value: &Json| value.as_str().is_some_and(|s| s.contains('\0'));
    if !metadata.extra.values().any(has_nul) {
        return Cow::Borrowed(metadata);
    }
    let mut stripped = metadata.clone();
    for value in stripped.extra.values_mut().filter(|value| has_nul(value)) {
        *value = value.as_str().unwrap_or_default().replace('\0', "").into();
    }
    Cow::Owned(stripped)
}

/// Source and step must be there: a run cannot start from a checkpoint without them, in Python
/// neither. Only an anchor, whose step is -2, has no source.
pub fn decode_metadata(json: &[u8]) -> Result<Metadata, CodecError> {
    let json = serde_json::from_slice(json)
        .or_else(|_| serde_json::from_slice(&without_odd_numbers(json)))
        .map_err(|e| CodecError::Json(e.to_string()))?;
    let Json::Object(mut object) = json else {
        return Err(CodecError::shape("metadata", "an object"));
    };
    // `shift_remove` keeps the order of the rest.
    let had_no_source = !object.contains_key("source");
    let source =
        object.shift_remove("source").and_then(|s| serde_json::from_value::<Source>(s).ok());
    let step = object.shift_remove("step").and_then(|s| s.as_i64());
    let is_anchor = had_no_source && step == Some(ANCHOR_STEP);
    let source = source.or(is_anchor.then_some(Source::Anchor));
    Ok(Metadata {
        source: source.ok_or(CodecError::shape("source", "input, loop, update or fork"))?,
        step: step.ok_or(CodecError::shape("step", "an integer"))?,
        parents: object.shift_remove("parents").map_or(Ok(BTreeMap::new()), parents)?,
        extra: object,
    })
}

/// Python writes numbers that JSON has no words for, and reads them again: NaN and the infinities. They
/// are null here, as in JSON of other makers.
fn without_odd_numbers(json: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(json.len());
    let mut rest = json;
    let mut in_text = false;
    while let [first, behind @ ..] = rest {
        let odd = ["NaN", "-Infinity", "Infinity"];
        let found =
            odd.iter().filter(|_| !in_text).find_map(|odd| rest.strip_prefix(odd.as_bytes()));
        if let Some(behind) = found {
            plain.extend_from_slice(b"null");
            rest = behind;
            continue;
        }
        let length = match first {
            b'\\' if in_text && !behind.is_empty() => 2,
            _ => 1,
        };
        in_text ^= *first == b'"';
        plain.extend_from_slice(&rest[..length]);
        rest = &rest[length..];
    }
    plain
}

fn parents(json: Json) -> Result<BTreeMap<String, String>, CodecError> {
    let Json::Object(object) = json else {
        return Err(CodecError::shape("parents", "an object"));
    };
    let entry = |(namespace, id)| match id {
        Json::String(id) => Ok((namespace, id)),
        _ => Err(CodecError::shape("parents", "checkpoint ids as text")),
    };
    object.into_iter().map(entry).collect()
}
