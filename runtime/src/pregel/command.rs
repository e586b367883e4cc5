//! A command as a value of the channel `__start__`.
//!
//! A thread that has nothing to go on with takes a command for its input, as LangGraph does: it is
//! stored as it came and writes nothing of its own, so the graph runs from its entry.

use super::Command;
use crate::checkpoint::codec::{CodecError, pack, unpack};
use crate::value::{self, Value};

/// The extension type by which a Python object with named arguments is stored.
const NAMED_ARGUMENTS: i8 = 2;
const MODULE: &str = "langgraph.types";
const CLASS: &str = "Command";

/// The bytes are those of Python's `Command(resume=..)`.
pub(crate) fn command_value(command: &Command) -> Result<Value, CodecError> {
    let arguments = value::map([
        ("graph", Value::Nil),
        ("update", Value::Nil),
        ("resume", command.resume.clone().unwrap_or(Value::Nil)),
        ("goto", Value::Array(vec![])),
    ]);
    let object = Value::Array(vec![MODULE.into(), CLASS.into(), arguments]);
    Ok(Value::Ext(NAMED_ARGUMENTS, pack(&object)?))
}

pub(crate) fn is_command(value: &Value) -> bool {
    let Value::Ext(NAMED_ARGUMENTS, payload) = value else { return false };
    let Ok(Value::Array(parts)) = unpack(payload) else { return false };
    let name = |place: usize| parts.get(place).and_then(Value::as_str);
    name(0) == Some(MODULE) && name(1) == Some(CLASS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stored_as_python_stores_it() {
        // The bytes that langgraph-checkpoint 4.3.2 writes for `Command(resume=1)`.
        let hex = "93af6c616e6767726170682e7479706573a7436f6d6d616e6484a56772617068c0a6757064\
                   617465c0a6726573756d6501a4676f746f90";
        let value = command_value(&Command { resume: Some(Value::from(1)) }).unwrap();
        let Value::Ext(2, payload) = &value else { panic!("{value:?}") };
        let written: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, hex);
        assert!(is_command(&value));
        assert!(!is_command(&Value::from(1)));
    }
}
