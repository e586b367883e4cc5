//! A command as a value of the channel `__start__`.
//!
//! A thread that has nothing to go on with takes a command for its input, as LangGraph does: it is
//! stored as it came, and the graph's entry writes and goes where it says.

use std::sync::Arc;

use crate::checkpoint::codec::{CodecError, pack, read_send, send_value, unpack};
use crate::checkpoint::reserved;
use crate::graph::{Command, END, Goto, Resume, Send, Update};
use crate::value::{self, Value};

/// The extension type by which a Python object with named arguments is stored.
const NAMED_ARGUMENTS: i8 = 2;
const MODULE: &str = "langgraph.types";
const CLASS: &str = "Command";

/// The bytes are those of Python's `Command(..)`.
pub(crate) fn command_value(command: &Command) -> Result<Value, CodecError> {
    let update = command.update.writes.iter();
    let update = update.map(|(key, value)| (key.to_string(), (**value).clone()));
    let update: Vec<(String, Value)> = update.collect();
    let directions = command.goto.iter().map(|to| match to {
        Goto::Node(node) if &**node == END => Ok(Value::from(reserved::END)),
        Goto::Node(node) => Ok(Value::from(&**node)),
        Goto::Send(send) => send_value(&send.node, (*send.argument).clone()),
    });
    let mut directions = directions.collect::<Result<Vec<_>, _>>()?;
    let arguments = value::map([
        ("graph", Value::Nil),
        ("update", if update.is_empty() { Value::Nil } else { value::map(update) }),
        (
            "resume",
            match &command.resume {
                None => Value::Nil,
                Some(Resume::Value(answer)) => answer.clone(),
                Some(Resume::ById(answers)) => {
                    value::map(answers.iter().map(|(id, answer)| (id.clone(), answer.clone())))
                }
            },
        ),
        (
            "goto",
            match directions.len() {
                1 => directions.remove(0),
                _ => Value::Array(directions),
            },
        ),
    ]);
    let object = Value::Array(vec![MODULE.into(), CLASS.into(), arguments]);
    Ok(Value::Ext(NAMED_ARGUMENTS, pack(&object)?))
}

/// The update and the directions of a stored command; `None` for any other value.
pub(crate) fn read_command(value: &Value) -> Option<Command> {
    let Value::Ext(NAMED_ARGUMENTS, payload) = value else { return None };
    let Value::Array(parts) = unpack(payload).ok()? else { return None };
    let [module, class, Value::Map(arguments)] = parts.as_slice() else { return None };
    if module.as_str() != Some(MODULE) || class.as_str() != Some(CLASS) {
        return None;
    }
    let of = |name: &str| {
        let found = arguments.iter().find(|(key, _)| key.as_str() == Some(name));
        found.map_or(&Value::Nil, |(_, value)| value)
    };
    let goto = match of("goto") {
        Value::Array(several) => several.iter().filter_map(direction).collect(),
        one => direction(one).into_iter().collect(),
    };
    let update = Update::from_map(of("update")).unwrap_or_default();
    Some(Command { update, goto, ..Command::new() })
}

fn direction(value: &Value) -> Option<Goto> {
    match value {
        Value::String(node) if node.as_str() == Some(reserved::END) => Some(Goto::from(END)),
        Value::String(node) => Some(Goto::Node(node.as_str()?.into())),
        packet => {
            let (node, argument) = read_send(packet)?;
            Some(Goto::Send(Send { node: node.into(), argument: Arc::new(argument) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_stored_as_python_stores_it() {
        // The bytes that langgraph-checkpoint 4.3.2 writes for `Command(resume=1)`.
        let hex = "93af6c616e6767726170682e7479706573a7436f6d6d616e6484a56772617068c0a6757064\
                   617465c0a6726573756d6501a4676f746f90";
        let value = command_value(&Command::resume(1)).unwrap();
        let Value::Ext(2, payload) = &value else { panic!("{value:?}") };
        let written: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, hex);
        assert!(read_command(&value).is_some());
        assert!(read_command(&Value::from(1)).is_none());
    }

    #[test]
    fn update_and_directions_come_back() {
        let update = Update::new().set("x", 1);
        let command = Command::new().update(update).goto("a").goto(Send::new("b", 2));
        let value = command_value(&command).unwrap();
        assert_eq!(read_command(&value), Some(command));
    }
}
