//! Commands: what a node returns to say where to go, and what a caller tells a paused thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Update;
use crate::value::{self, Shared, Value};

/// An update and directions together. A node returns one, and so may a caller give one to a thread.
///
/// `U` is the kind of update: an [`Update`] of any keys, or the one of a typed state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Command<U = Update> {
    pub update: U,
    /// Where to go, besides what the node's edges say.
    pub goto: Vec<Goto>,
    /// Answers to interrupts. Only a caller's command has any.
    pub resume: Option<Resume>,
    /// Which graph `update` and `goto` are meant for. Only a node's command may name another.
    pub graph: Destination,
}

/// One direction of a command or a router: a node's name (or [`super::END`]), or a [`Send`].
#[derive(Debug, Clone, PartialEq)]
pub enum Goto {
    Node(Arc<str>),
    Send(Send),
}

/// A task of its own for `node`, which gets `argument` instead of the state. It runs in the next
/// super-step, beside whatever else does, once for each Send.
#[derive(Debug, Clone, PartialEq)]
pub struct Send {
    pub node: Arc<str>,
    pub argument: Shared,
}

/// Answers to interrupts that wait.
#[derive(Debug, Clone, PartialEq)]
pub enum Resume {
    /// For the one interrupt that waits.
    Value(Value),
    /// By interrupt id.
    ById(BTreeMap<String, Value>),
}

/// The graph that a node's command is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Destination {
    /// The graph that the node is part of.
    #[default]
    Current,
    /// The graph that runs this one as a node. The run of this one ends.
    Parent,
}

impl Command {
    pub fn new() -> Command {
        Command::default()
    }

    /// The answer for the one interrupt that waits.
    pub fn resume(value: impl Into<Value>) -> Command {
        Command { resume: Some(Resume::Value(value.into())), ..Command::new() }
    }

    /// An answer for the interrupt with this id. Several add up.
    pub fn answer(mut self, interrupt: &str, value: impl Into<Value>) -> Command {
        let mut answers = match self.resume.take() {
            Some(Resume::ById(answers)) => answers,
            _ => BTreeMap::new(),
        };
        answers.insert(interrupt.to_owned(), value.into());
        self.resume = Some(Resume::ById(answers));
        self
    }
}

impl<U> Command<U> {
    /// Writes `update` in place of what the command had to write.
    pub fn update<V>(self, update: V) -> Command<V> {
        let Command { update: _, goto, resume, graph } = self;
        Command { update, goto, resume, graph }
    }

    /// Goes to a node, or sends. Several directions add up.
    pub fn goto(mut self, to: impl Into<Goto>) -> Command<U> {
        self.goto.push(to.into());
        self
    }

    pub fn to_parent(mut self) -> Command<U> {
        self.graph = Destination::Parent;
        self
    }
}

impl Send {
    pub fn new(node: &str, argument: impl Into<Value>) -> Send {
        Send { node: node.into(), argument: Arc::new(argument.into()) }
    }

    /// An argument that is anything serializable.
    pub fn with<T: serde::Serialize>(node: &str, argument: &T) -> Result<Send, super::StateError> {
        let unfit = |problem: String| super::StateError::Unfit { key: node.to_owned(), problem };
        let argument = value::to_value(argument).map_err(|error| unfit(error.to_string()))?;
        Ok(Send::new(node, argument))
    }
}

impl Resume {
    /// As LangGraph reads an answer: a map whose every key is 32 hexadecimal digits answers by
    /// interrupt id.
    pub fn from_value(value: Value) -> Resume {
        let is_id = |key: &Value| {
            key.as_str().is_some_and(|id| {
                id.len() == 32
                    && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            })
        };
        match value {
            Value::Map(entries) if entries.iter().all(|(key, _)| is_id(key)) => {
                let named = entries.into_iter();
                Resume::ById(
                    named
                        .map(|(id, value)| (id.as_str().unwrap_or_default().to_owned(), value))
                        .collect(),
                )
            }
            value => Resume::Value(value),
        }
    }
}

impl From<&str> for Goto {
    fn from(node: &str) -> Goto {
        Goto::Node(node.into())
    }
}

impl From<String> for Goto {
    fn from(node: String) -> Goto {
        Goto::Node(node.into())
    }
}

impl From<Send> for Goto {
    fn from(send: Send) -> Goto {
        Goto::Send(send)
    }
}

/// What a node may return.
pub trait IntoCommand {
    fn into_command(self) -> Command;
}

impl<U: Into<Update>> IntoCommand for Command<U> {
    fn into_command(self) -> Command {
        let Command { update, goto, resume, graph } = self;
        Command { update: update.into(), goto, resume, graph }
    }
}

impl IntoCommand for Update {
    fn into_command(self) -> Command {
        Command::new().update(self)
    }
}

impl IntoCommand for () {
    fn into_command(self) -> Command {
        Command::new()
    }
}
