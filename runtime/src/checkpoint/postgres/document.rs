//! A checkpoint as the JSON document in its row, and the values that do not stand in it.
//!
//! Nothing, booleans, numbers and strings stand in the document; every other value is a row of its own,
//! by channel and version. A number or a string that Postgres's JSON does not have is refused, as by
//! LangGraph, which could not go on from it. The one exception is -0.0, which is a row, as Postgres
//! would drop its sign. Of a delta channel's snapshot the document says `true`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::checkpoint::codec::{encode, is_delta_snapshot};
use crate::checkpoint::reserved::TASKS;
use crate::checkpoint::saver::SaverError;
use crate::checkpoint::version::parse_version;
use crate::checkpoint::{ChannelVersions, Checkpoint};
use crate::ordered::IndexMap;
use crate::value::{Shared, Value, big_integer, read_big_integer};

/// The columns of the values that are stored by version.
#[derive(Default)]
pub(super) struct Blobs {
    pub channels: Vec<Arc<str>>,
    pub versions: Vec<Arc<str>>,
    pub types: Vec<&'static str>,
    pub bytes: Vec<Vec<u8>>,
}

/// The document of a checkpoint, and the values that go beside it: of those only the ones whose
/// version is new are encoded, as the others are stored already.
pub(super) fn write(
    checkpoint: &Checkpoint,
    new_versions: &ChannelVersions,
) -> Result<(String, Blobs), SaverError> {
    let mut out = Writer(String::with_capacity(1024));
    let mut blobs = Blobs::default();
    write!(out.0, "{{\"v\":{},\"ts\":", checkpoint.layout).expect("a string takes all text");
    out.text(&checkpoint.ts).raw(",\"id\":").text(&checkpoint.id).raw(",\"channel_values\":");
    let mut inline = Vec::new();
    for (channel, value) in &checkpoint.channel_values {
        let unstorable =
            |problem: String| SaverError::Unstorable { channel: channel.to_string(), problem };
        match Inline::of(value).map_err(|problem| unstorable(problem.to_owned()))? {
            Some(scalar) => inline.push((channel, scalar)),
            None => {
                if is_delta_snapshot(value) {
                    inline.push((channel, Inline::Word("true")));
                }
                if !checkpoint.channel_versions.contains_key(channel) {
                    return Err(unstorable("it has a value and no version".to_owned()));
                }
                let Some(version) = new_versions.get(channel) else { continue };
                let (type_name, bytes) =
                    encode(value).map_err(|error| unstorable(error.to_string()))?;
                blobs.channels.push(channel.clone());
                blobs.versions.push(version.clone());
                blobs.types.push(type_name);
                blobs.bytes.push(bytes);
            }
        }
    }
    out.object(inline, |out, scalar| scalar.write(out));
    out.raw(",\"channel_versions\":").versions(&checkpoint.channel_versions);
    out.raw(",\"versions_seen\":");
    out.object(&checkpoint.versions_seen, |out, seen| {
        out.versions(seen);
    });
    out.raw(",\"updated_channels\":");
    match &checkpoint.updated_channels {
        None => out.raw("null"),
        Some(names) => out.list(names),
    };
    out.raw("}");
    Ok((out.0, blobs))
}

/// A value that stands in the document.
enum Inline<'a> {
    Word(&'static str),
    Integer(&'a Value),
    /// Of an integer beyond 64 bits.
    Digits(&'a str),
    Float(f64),
    Text(&'a str),
}

impl Inline<'_> {
    /// `None` for a value that has a row of its own.
    fn of(value: &Value) -> Result<Option<Inline<'_>>, &'static str> {
        let float = |float: f64| match float.is_finite() {
            true if float == 0.0 && float.is_sign_negative() => Ok(None),
            true => Ok(Some(Inline::Float(float))),
            false => {
                Err("JSON has neither NaN nor infinities; they are kept inside a list or a map")
            }
        };
        match value {
            Value::Nil => Ok(Some(Inline::Word("null"))),
            Value::Boolean(true) => Ok(Some(Inline::Word("true"))),
            Value::Boolean(false) => Ok(Some(Inline::Word("false"))),
            Value::Integer(_) => Ok(Some(Inline::Integer(value))),
            Value::F32(number) => float((*number).into()),
            Value::F64(number) => float(*number),
            Value::String(text) => match text.as_str() {
                None => Err("a string is not UTF-8"),
                Some(text) if text.contains('\0') => {
                    Err("Postgres keeps no U+0000 in a string, unless it is inside a list or a map")
                }
                Some(text) => Ok(Some(Inline::Text(text))),
            },
            Value::Ext(..) => Ok(read_big_integer(value).map(Inline::Digits)),
            _ => Ok(None),
        }
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Inline::Word(word) => out.raw(word),
            Inline::Text(text) => out.text(text),
            Inline::Integer(number) => out.raw(&number.to_string()),
            Inline::Digits(digits) => out.raw(digits),
            // All digits and at least one decimal: Postgres expands exponents, and would give back
            // 1e16, which is how Python writes it, as an integer.
            Inline::Float(number) if number.fract() == 0.0 => out.raw(&format!("{number}.0")),
            Inline::Float(number) => out.raw(&format!("{number}")),
        };
    }
}

struct Writer(String);

impl Writer {
    fn raw(&mut self, text: &str) -> &mut Writer {
        self.0.push_str(text);
        self
    }

    fn text(&mut self, text: &str) -> &mut Writer {
        let quoted = serde_json::to_string(text).expect("a string is JSON");
        self.raw(&quoted)
    }

    fn object<K: AsRef<str>, V>(
        &mut self,
        entries: impl IntoIterator<Item = (K, V)>,
        write: impl Fn(&mut Writer, V),
    ) -> &mut Writer {
        self.raw("{");
        for (nth, (key, value)) in entries.into_iter().enumerate() {
            self.raw(if nth == 0 { "" } else { "," }).text(key.as_ref()).raw(":");
            write(self, value);
        }
        self.raw("}")
    }

    fn versions(&mut self, versions: &ChannelVersions) -> &mut Writer {
        self.object(versions, |out, version| {
            out.text(version);
        })
    }

    fn list(&mut self, names: &[Arc<str>]) -> &mut Writer {
        self.raw("[");
        for (nth, name) in names.iter().enumerate() {
            self.raw(if nth == 0 { "" } else { "," }).text(name);
        }
        self.raw("]")
    }
}

/// By channel, as they were read.
type Versions = IndexMap<Arc<str>, Json>;

#[derive(Deserialize)]
struct Fields<'a> {
    v: Option<u64>,
    ts: Option<String>,
    id: Option<Arc<str>>,
    #[serde(borrow)]
    channel_values: Option<IndexMap<Arc<str>, &'a RawValue>>,
    channel_versions: Option<Versions>,
    versions_seen: Option<IndexMap<Arc<str>, Versions>>,
    updated_channels: Option<Vec<Arc<str>>>,
}

/// Reads a document by its keys' names. Keys that it does not know are left out, keys that are
/// missing are empty; only the layout version and the id must be there. The values are those that
/// stand in the document.
pub(super) fn read(json: &str) -> Result<Checkpoint, String> {
    let fields: Fields<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let missing = |key: &str| format!("{key} is missing");
    let mut values = IndexMap::default();
    for (channel, value) in fields.channel_values.unwrap_or_default() {
        let value =
            inline(value.get()).map_err(|problem| format!("channel {channel:?}: {problem}"))?;
        values.insert(channel, value);
    }
    let mut seen = IndexMap::default();
    for (node, of_node) in fields.versions_seen.unwrap_or_default() {
        let of_node = versions(&format!("versions_seen of {node:?}"), of_node)?;
        seen.insert(node, of_node);
    }
    Ok(Checkpoint {
        layout: fields.v.ok_or_else(|| missing("v"))?,
        ts: fields.ts.unwrap_or_default(),
        id: fields.id.ok_or_else(|| missing("id"))?,
        channel_values: values,
        channel_versions: versions(
            "channel_versions",
            fields.channel_versions.unwrap_or_default(),
        )?,
        versions_seen: seen,
        updated_channels: fields.updated_channels,
    })
}

/// Versions are refused here when they have no number, so that no new one can fall behind. Before
/// layout 4 they could be plain numbers.
fn versions(key: &str, found: Versions) -> Result<ChannelVersions, String> {
    let version = |(channel, version): (Arc<str>, Json)| {
        let text: Arc<str> = match &version {
            Json::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        };
        match parse_version(&text) {
            Some(_) => Ok((channel, text)),
            None => Err(format!("{key}, channel {channel:?}: {version} is no version")),
        }
    };
    found.into_iter().map(version).collect()
}

/// A value that stands in the document.
pub(super) fn inline(text: &str) -> Result<Shared, String> {
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let value = match is_number {
        true => number(text)?,
        false => {
            let read: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
            crate::value::from_json(read)
        }
    };
    Ok(Arc::new(value))
}

/// As Python reads it: with a fraction or an exponent it is a float, without one an integer, of any
/// size.
fn number(text: &str) -> Result<Value, String> {
    if !text.contains(['.', 'e', 'E']) {
        let small = text.parse::<i64>().map(Value::from);
        let number = small.or_else(|_| text.parse::<u64>().map(Value::from)).ok();
        let number = number.or_else(|| big_integer(text));
        return number.ok_or_else(|| format!("{text} is no integer that Python reads"));
    }
    match text.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(Value::F64(float)),
        _ => Err(format!("{text} is no number that a float has room for")),
    }
}

/// The value of an older checkpoint's tasks, which stood beside its parent, under a version as
/// recent as the newest.
pub(super) fn add_pending_sends(checkpoint: &mut Checkpoint, sends: Vec<Value>) {
    if sends.is_empty() {
        return;
    }
    let newest = checkpoint.channel_versions.values().max().cloned();
    checkpoint.channel_values.insert(TASKS.into(), Arc::new(Value::Array(sends)));
    let version = newest.unwrap_or_else(|| format!("{:032}.{:016}", 1, 0).into());
    checkpoint.channel_versions.insert(TASKS.into(), version);
}

/// Values by namespace, channel and version, as one answer holds them.
pub(super) type Held = BTreeMap<(Arc<str>, Arc<str>, Arc<str>), Shared>;
