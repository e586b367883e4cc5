//! The Python classes whose instances the runtime itself makes and reads.
//!
//! An ext value's payload is msgpack again: `[module, class, argument]`, where the code says how
//! the class is called (0: one argument, 1: a list of arguments, 2: named arguments).

use super::{CodecError, pack, unpack};
use crate::value::{self, Value};

const ONE_ARGUMENT: i8 = 0;
const ARGUMENTS: i8 = 1;
const NAMED_ARGUMENTS: i8 = 2;
/// Not an instance: the payload is the value itself.
const DELTA_SNAPSHOT: i8 = 7;
const TYPES: &str = "langgraph.types";

/// `Interrupt(value, id)`. Fails as [`pack`] does.
pub fn interrupt_value(value: Value, id: &str) -> Result<Value, CodecError> {
    let arguments = value::map([("value", value), ("id", id.into())]);
    instance(NAMED_ARGUMENTS, TYPES, "Interrupt", arguments)
}

pub fn read_interrupt(value: &Value) -> Option<(Value, String)> {
    let Value::Map(arguments) = read_instance(value, NAMED_ARGUMENTS, TYPES, "Interrupt")? else {
        return None;
    };
    let mut read = (None, None);
    for (name, argument) in arguments {
        match name.as_str()? {
            "value" => read.0 = Some(argument),
            "id" => read.1 = Some(argument.as_str()?.to_owned()),
            _ => {}
        }
    }
    Some((read.0?, read.1?))
}

/// `Send(node, argument)`. Fails as [`pack`] does.
pub fn send_value(node: &str, argument: Value) -> Result<Value, CodecError> {
    instance(ARGUMENTS, TYPES, "Send", Value::Array(vec![node.into(), argument]))
}

pub fn read_send(value: &Value) -> Option<(String, Value)> {
    let Value::Array(arguments) = read_instance(value, ARGUMENTS, TYPES, "Send")? else {
        return None;
    };
    let mut arguments = arguments.into_iter();
    Some((arguments.next()?.as_str()?.to_owned(), arguments.next()?))
}

/// `Overwrite(value)`. Fails as [`pack`] does.
pub fn overwrite_value(value: Value) -> Result<Value, CodecError> {
    let arguments = value::map([("value", value), ("type", "__overwrite__".into())]);
    instance(NAMED_ARGUMENTS, TYPES, "Overwrite", arguments)
}

pub fn read_overwrite(value: &Value) -> Option<Value> {
    let Value::Map(arguments) = read_instance(value, NAMED_ARGUMENTS, TYPES, "Overwrite")? else {
        return None;
    };
    arguments.into_iter().find(|(name, _)| name.as_str() == Some("value")).map(|(_, value)| value)
}

/// The whole of a delta channel, as a checkpoint holds it. Fails as [`pack`] does.
pub fn delta_snapshot_value(value: &Value) -> Result<Value, CodecError> {
    Ok(Value::Ext(DELTA_SNAPSHOT, pack(value)?))
}

pub fn is_delta_snapshot(value: &Value) -> bool {
    matches!(value, Value::Ext(DELTA_SNAPSHOT, _))
}

/// The value in a delta channel's snapshot; `None` for anything else. Fails as [`unpack`] does.
pub fn read_delta_snapshot(value: &Value) -> Result<Option<Value>, CodecError> {
    match value {
        Value::Ext(DELTA_SNAPSHOT, payload) => unpack(payload).map(Some),
        _ => Ok(None),
    }
}

/// A Python `set` of strings, in the order given. Python's own order is arbitrary; sort for bytes
/// that are the same in every run.
pub fn set_value<'a>(names: impl IntoIterator<Item = &'a str>) -> Value {
    let names = names.into_iter().map(Value::from).collect();
    instance(ONE_ARGUMENT, "builtins", "set", Value::Array(names)).expect("strings can be packed")
}

/// The members of a Python `set`, in stored order.
pub fn read_set(value: &Value) -> Option<Vec<Value>> {
    match read_instance(value, ONE_ARGUMENT, "builtins", "set")? {
        Value::Array(members) => Some(members),
        _ => None,
    }
}

fn instance(code: i8, module: &str, class: &str, argument: Value) -> Result<Value, CodecError> {
    let payload = Value::Array(vec![module.into(), class.into(), argument]);
    Ok(Value::Ext(code, pack(&payload)?))
}

fn read_instance(value: &Value, code: i8, module: &str, class: &str) -> Option<Value> {
    let Value::Ext(found, payload) = value else { return None };
    if *found != code {
        return None;
    }
    let Value::Array(parts) = unpack(payload).ok()? else { return None };
    let mut parts = parts.into_iter();
    let names_fit = parts.next()?.as_str()? == module && parts.next()?.as_str()? == class;
    names_fit.then(|| parts.next()).flatten()
}
