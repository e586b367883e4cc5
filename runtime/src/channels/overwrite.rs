//! A write that goes past a reducer: it becomes the value, whatever was there.

use crate::checkpoint::codec::{CodecError, overwrite_value, read_overwrite};
use crate::value::{self, Value};

const MARK: &str = "__overwrite__";

/// Wraps a value so that a reducer takes it for the whole. LangGraph's `Overwrite`; its JSON forms,
/// `{"__overwrite__": value}` and `{"value": value, "type": "__overwrite__"}`, are read too. Two in
/// one step are an error.
pub fn overwrite<T: serde::Serialize>(value: &T) -> Result<Value, CodecError> {
    let value = value::to_value(value).map_err(|error| CodecError::Json(error.to_string()))?;
    overwrite_value(value)
}

/// The value inside, if `value` is an overwrite.
pub(crate) fn overwritten(value: &Value) -> Option<Value> {
    let Value::Map(entries) = value else { return read_overwrite(value) };
    if let [(key, inner)] = entries.as_slice()
        && key.as_str() == Some(MARK)
    {
        return Some(inner.clone());
    }
    let of = |name: &str| entries.iter().find(|(key, _)| key.as_str() == Some(name));
    of("type").filter(|(_, kind)| kind.as_str() == Some(MARK))?;
    of("value").map(|(_, inner)| inner.clone())
}
