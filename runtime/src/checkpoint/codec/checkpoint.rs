//! A whole checkpoint as one msgpack map, the way SQLite stores it.

use std::sync::Arc;

use super::msgpack::{Packer, unpack, unreadable_in};
use super::{CodecError, Encodings};
use crate::checkpoint::saver::SaverError;
use crate::checkpoint::version::parse_version;
use crate::checkpoint::{ChannelVersions, Checkpoint};
use crate::ordered::IndexMap;
use crate::value::Value;

/// The bytes of a checkpoint, keys in the order in which LangGraph writes them. The values are
/// written from where they are: they can be the whole state of a thread, and nothing of it is
/// copied besides the bytes.
pub fn encode_checkpoint(checkpoint: &Checkpoint) -> Result<Vec<u8>, SaverError> {
    encode_checkpoint_with(checkpoint, &mut Encodings::default())
}

/// As [`encode_checkpoint`], with the bytes of values that were encoded before.
pub(crate) fn encode_checkpoint_with(
    checkpoint: &Checkpoint,
    encodings: &mut Encodings,
) -> Result<Vec<u8>, SaverError> {
    let mut out = Packer { bytes: Vec::with_capacity(ROOM) };
    out.map(7);
    out.text("v").number(checkpoint.layout);
    out.text("ts").text(&checkpoint.ts);
    out.text("id").text(&checkpoint.id);
    out.text("channel_values").map(checkpoint.channel_values.len());
    for (channel, value) in &checkpoint.channel_values {
        out.text(channel);
        if let Some(bytes) = encodings.find(value) {
            out.bytes.extend_from_slice(&bytes);
            continue;
        }
        let start = out.bytes.len();
        out.value(value, VALUE_DEPTH).map_err(|error| SaverError::Unstorable {
            channel: channel.to_string(),
            problem: error.to_string(),
        })?;
        encodings.keep(value, &out.bytes[start..]);
    }
    out.text("channel_versions").versions(&checkpoint.channel_versions);
    out.text("versions_seen").map(checkpoint.versions_seen.len());
    for (node, seen) in &checkpoint.versions_seen {
        out.text(node).versions(seen);
    }
    out.text("updated_channels");
    match &checkpoint.updated_channels {
        None => out.nil(),
        Some(names) => out.names(names),
    };
    Ok(out.bytes)
}

/// Of a checkpoint with a few channels, in bytes.
const ROOM: usize = 2048;

/// A channel's value stands inside the map of values inside the map of the checkpoint.
const VALUE_DEPTH: usize = 2;

impl Packer {
    fn versions(&mut self, versions: &ChannelVersions) {
        self.map(versions.len());
        for (channel, version) in versions {
            self.text(channel).text(version);
        }
    }

    fn names(&mut self, names: &[Arc<str>]) -> &mut Packer {
        self.array(names.len());
        for name in names {
            self.text(name);
        }
        self
    }
}

/// Reads a checkpoint by its keys' names. Keys that it does not know are left out, keys that are
/// missing are empty; only the layout version and the id must be there.
pub fn decode_checkpoint(bytes: &[u8]) -> Result<Checkpoint, CodecError> {
    let of_channel = |problem: CodecError| match unreadable_in("channel_values", bytes) {
        Some(channel) => CodecError::Channel { channel, problem: Box::new(problem) },
        None => problem,
    };
    let Value::Map(entries) = unpack(bytes).map_err(of_channel)? else {
        return Err(CodecError::shape("checkpoint", "a map"));
    };
    let mut layout = None;
    let mut id = None;
    let mut checkpoint = Checkpoint {
        layout: 0,
        ts: String::new(),
        id: "".into(),
        channel_values: IndexMap::default(),
        channel_versions: ChannelVersions::default(),
        versions_seen: IndexMap::default(),
        updated_channels: None,
    };
    for (key, value) in entries {
        match key.as_str() {
            Some("v") => layout = value.as_u64(),
            Some("ts") => checkpoint.ts = text("ts", value)?,
            Some("id") => id = Some(text("id", value)?),
            Some("channel_values") => {
                checkpoint.channel_values = named("channel_values", value, |_, v| Ok(v.into()))?;
            }
            Some("channel_versions") => {
                checkpoint.channel_versions = read_versions("channel_versions", value)?;
            }
            Some("versions_seen") => {
                checkpoint.versions_seen = named("versions_seen", value, |node, seen| {
                    read_versions(&format!("versions_seen of {node:?}"), seen)
                })?;
            }
            Some("updated_channels") => checkpoint.updated_channels = read_names(value)?,
            _ => {}
        }
    }
    checkpoint.layout = layout.ok_or(CodecError::shape("v", "a layout version"))?;
    checkpoint.id = id.ok_or(CodecError::shape("id", "text"))?.into();
    Ok(checkpoint)
}

/// A map with names as keys.
fn named<T>(
    key: &str,
    value: Value,
    read: impl Fn(&str, Value) -> Result<T, CodecError>,
) -> Result<IndexMap<Arc<str>, T>, CodecError> {
    let Value::Map(entries) = value else { return Err(CodecError::shape(key, "a map")) };
    let entry = |(name, value): (Value, Value)| {
        let name = name.as_str().ok_or_else(|| CodecError::shape(key, "names as keys"))?;
        Ok((name.into(), read(name, value)?))
    };
    entries.into_iter().map(entry).collect()
}

/// Versions are refused here when they have no number, so that no new one can fall behind.
fn read_versions(key: &str, value: Value) -> Result<ChannelVersions, CodecError> {
    named(key, value, |channel, version| {
        let version = version.as_str().filter(|version| parse_version(version).is_some());
        version.map(Arc::from).ok_or_else(|| {
            CodecError::shape(format!("{key}, channel {channel:?}"), "a version such as 0001.0.5")
        })
    })
}

fn read_names(value: Value) -> Result<Option<Vec<Arc<str>>>, CodecError> {
    let problem = || CodecError::shape("updated_channels", "a list of names or nothing");
    match value {
        Value::Nil => Ok(None),
        Value::Array(names) => {
            let name = |name: &Value| name.as_str().map(Arc::from).ok_or_else(problem);
            names.iter().map(name).collect::<Result<_, _>>().map(Some)
        }
        _ => Err(problem()),
    }
}

fn text(key: &str, value: Value) -> Result<String, CodecError> {
    value.as_str().map(str::to_owned).ok_or_else(|| CodecError::shape(key, "text"))
}
