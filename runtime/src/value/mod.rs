//! Values as they live in channels: the msgpack data model, shared and never mutated.

mod big_integer;
mod read;

use std::sync::Arc;

pub(crate) use big_integer::{big_integer, read_big_integer};
pub use read::{ReadError, from_value};

/// A msgpack value. Extension types that we do not interpret are carried byte for byte.
pub type Value = rmpv::Value;

/// A value in a channel: shared, so that a super-step never copies the state.
pub type Shared = Arc<Value>;

/// Builds a map with string keys, in the given order.
pub fn map<K: Into<String>>(entries: impl IntoIterator<Item = (K, Value)>) -> Value {
    Value::Map(entries.into_iter().map(|(k, v)| (Value::from(k.into()), v)).collect())
}

/// Converts anything serializable.
pub fn to_value<T: serde::Serialize>(value: &T) -> Result<Value, rmpv::ext::Error> {
    // rmpv's own serializer would turn structs into arrays; JSON's data model names the fields.
    match serde_json::to_value(value) {
        Ok(json) => Ok(from_json(json)),
        Err(error) => Err(rmpv::ext::Error::Syntax(error.to_string())),
    }
}

/// JSON to msgpack: integers stay integers, everything else is what it looks like.
pub fn from_json(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(b) => Value::Boolean(b),
        serde_json::Value::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(u), _) => Value::from(u),
            (None, Some(i)) => Value::from(i),
            (None, None) => Value::F64(n.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(s) => Value::from(s),
        serde_json::Value::Array(items) => Value::Array(items.into_iter().map(from_json).collect()),
        serde_json::Value::Object(entries) => {
            map(entries.into_iter().map(|(k, v)| (k, from_json(v))))
        }
    }
}

/// msgpack to JSON, for people and browsers. Binary data and extension types, which JSON lacks,
/// become objects that say what they are; an integer beyond 64 bits becomes the float that a browser
/// would make of it, or a text where there is none.
pub fn to_json(value: &Value) -> serde_json::Value {
    use serde_json::{Value as Json, json};
    match value {
        Value::Nil => Json::Null,
        Value::Boolean(b) => Json::Bool(*b),
        Value::Integer(n) => match (n.as_u64(), n.as_i64()) {
            (Some(u), _) => json!(u),
            (None, Some(i)) => json!(i),
            (None, None) => Json::Null,
        },
        Value::F32(f) => json!(f),
        Value::F64(f) => json!(f),
        Value::String(s) => Json::String(String::from_utf8_lossy(s.as_bytes()).into_owned()),
        Value::Binary(bytes) => json!({ "$bytes": hex(bytes) }),
        Value::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        Value::Map(entries) => Json::Object(
            entries
                .iter()
                .map(|(k, v)| {
                    let key = k.as_str().map_or_else(|| k.to_string(), str::to_owned);
                    (key, to_json(v))
                })
                .collect(),
        ),
        Value::Ext(code, bytes) => match read_big_integer(value) {
            Some(digits) => match digits.parse::<f64>() {
                Ok(float) if float.is_finite() => json!(float),
                _ => Json::String(digits.to_owned()),
            },
            None => json!({ "$ext": code, "$bytes": hex(bytes) }),
        },
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
