//! What one event is.

use std::sync::Arc;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// One thing that happened, at one virtual instant, in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Position in the trace, from 0.
    pub seq: u64,
    /// Virtual time since the start of the world; nanoseconds in JSON.
    #[serde(serialize_with = "nanoseconds")]
    pub at: Duration,
    /// The process, for example `server-1`, or `world`.
    pub process: Arc<str>,
    pub labels: Labels,
    /// Dotted, for example `process.killed`.
    pub name: &'static str,
    #[serde(serialize_with = "as_map")]
    pub fields: Vec<(&'static str, Value)>,
}

impl Event {
    /// The value of a field, if the event has it.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.fields.iter().find(|(name, _)| *name == field).map(|(_, value)| value)
    }
}

/// What an event belongs to, as far as is known where it is noted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Labels {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Arc<str>>,
}

impl Labels {
    pub fn none() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn request(mut self, id: impl Into<Arc<str>>) -> Self {
        self.request = Some(id.into());
        self
    }

    #[must_use]
    pub fn run(mut self, id: impl Into<Arc<str>>) -> Self {
        self.run = Some(id.into());
        self
    }

    #[must_use]
    pub fn thread(mut self, id: impl Into<Arc<str>>) -> Self {
        self.thread = Some(id.into());
        self
    }

    #[must_use]
    pub fn checkpoint(mut self, id: impl Into<Arc<str>>) -> Self {
        self.checkpoint = Some(id.into());
        self
    }

    #[must_use]
    pub fn task(mut self, id: impl Into<Arc<str>>) -> Self {
        self.task = Some(id.into());
        self
    }
}

/// The value of a field. No floats: they print and compare differently from place to place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Value {
    U64(u64),
    I64(i64),
    Bool(bool),
    Str(Arc<str>),
}

impl Value {
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::U64(n) => Some(*n),
            Value::I64(n) => u64::try_from(*n).ok(),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident as $to:ty),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(v: $from) -> Self {
                Value::$variant(v as $to)
            }
        })*
    };
}
value_from!(u64 => U64 as u64, u32 => U64 as u64, u16 => U64 as u64, u8 => U64 as u64,
    usize => U64 as u64, i64 => I64 as i64, i32 => I64 as i64, bool => Bool as bool);

impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Value::Str(v.into())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Self {
        Value::Str(v.into())
    }
}

impl From<Arc<str>> for Value {
    fn from(v: Arc<str>) -> Self {
        Value::Str(v)
    }
}

impl From<&Arc<str>> for Value {
    fn from(v: &Arc<str>) -> Self {
        Value::Str(v.clone())
    }
}

fn nanoseconds<S: Serializer>(at: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_u64(at.as_nanos() as u64)
}

fn as_map<S: Serializer>(fields: &[(&'static str, Value)], s: S) -> Result<S::Ok, S::Error> {
    let mut map = s.serialize_map(Some(fields.len()))?;
    for (name, value) in fields {
        map.serialize_entry(name, value)?;
    }
    map.end()
}
