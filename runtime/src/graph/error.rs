use std::sync::Arc;

use crate::value::Value;

/// A mistake in a graph, found when it is compiled. Each names the culprit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error("the graph has no nodes")]
    Empty,
    #[error("{0:?} is declared twice")]
    Duplicate(String),
    #[error(
        "{0:?} cannot be a name: START, END and names with `:`, `|` or a leading `__` are taken"
    )]
    ReservedName(String),
    #[error("edge {from:?} -> {to:?}: there is no node {unknown:?}")]
    UnknownNode { from: String, to: String, unknown: String },
    #[error("edge {from:?} -> {to:?}: {problem}")]
    BadEdge { from: String, to: String, problem: &'static str },
    #[error("no edge leads out of START")]
    NoEntry,
    #[error("no path leads from START to node {0:?}")]
    Unreachable(String),
    #[error("{where_} names {node:?}, and there is no such node")]
    NoSuchNode { where_: &'static str, node: String },
    /// `place` is a node, or the list of the input's or output's keys.
    #[error("{place} names {key:?}, which is no key of the state")]
    NoSuchKey { place: String, key: String },
    #[error(
        "nodes {nodes:?} both run after {after:?} and both write {key:?}, which takes one value per \
         step; give it a reducer, or let one run after the other"
    )]
    ParallelWriters { key: String, nodes: [String; 2], after: String },
    #[error("{0} is no option for all nodes together")]
    BadDefault(&'static str),
    #[error("node {node:?} has a time limit of nothing")]
    NoTime { node: String },
    #[error("in subgraph {node:?}: {error}")]
    InSubgraph { node: String, error: Box<GraphError> },
}

/// Why a node did not finish.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NodeError {
    /// The node failed. `kind` is the error's class name, as it shows in the stored record.
    #[error("{kind}: {message}")]
    Failed { kind: String, message: String },
    /// The node asks its caller something and waits. Made by
    /// [`super::NodeContext::interrupt`]; pass it on with `?`. Empty when a graph inside paused at a
    /// static interrupt.
    #[error("interrupted")]
    Interrupted(Vec<Interrupt>),
    /// A graph that the node ran has ended with a command for the node's own graph. Made by
    /// [`super::NodeContext::invoke`]; pass it on with `?`.
    #[error("a command for the graph around")]
    Command(Box<super::Command>),
    /// A graph that the node ran was asked to end early. Made by [`super::NodeContext::invoke`]; pass
    /// it on with `?`.
    #[error("drained: {reason}")]
    Drained { reason: String },
}

/// A node that failed, as its error handler is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFailure {
    pub node: Arc<str>,
    /// Always [`NodeError::Failed`]. After a restart it is read from the stored record, which has
    /// the error's class and message and no more.
    pub error: NodeError,
}

/// A question that waits for an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Interrupt {
    pub value: Value,
    /// The same for all interrupts of one task.
    pub id: String,
}

impl NodeError {
    pub fn failed(kind: impl Into<String>, message: impl ToString) -> NodeError {
        NodeError::Failed { kind: kind.into(), message: message.to_string() }
    }

    /// As Python's `repr` of an exception, which is what the real stack stores.
    pub(crate) fn repr(&self) -> String {
        match self {
            NodeError::Failed { kind, message } if message.is_empty() => format!("{kind}()"),
            NodeError::Failed { kind, message } => format!("{kind}({})", python_repr(message)),
            NodeError::Interrupted(_) => "GraphInterrupt()".to_owned(),
            NodeError::Command(_) => "ParentCommand()".to_owned(),
            NodeError::Drained { reason } => {
                format!("GraphDrained({})", python_repr(&format!("Graph drained: {reason}")))
            }
        }
    }
}

impl NodeError {
    /// Reads a stored [`NodeError::repr`] back. Text that is none becomes the message of an
    /// `Exception`.
    pub(crate) fn from_repr(repr: &str) -> NodeError {
        let is_class = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        match repr.strip_suffix(')').and_then(|repr| repr.split_once('(')) {
            Some((kind, argument)) if is_class(kind) => {
                let message = unquoted(argument).unwrap_or_else(|| argument.to_owned());
                NodeError::failed(kind, message)
            }
            _ => NodeError::failed("Exception", repr),
        }
    }
}

/// Any error ends a node; its message is kept.
impl<E: std::error::Error> From<E> for NodeError
where
    E: NotNodeError,
{
    fn from(error: E) -> NodeError {
        NodeError::failed(E::KIND, error)
    }
}

/// Errors that may end a node through `?`, with the class name they are recorded under.
pub trait NotNodeError {
    const KIND: &'static str;
}

impl NotNodeError for super::StateError {
    const KIND: &'static str = "StateError";
}
impl NotNodeError for std::io::Error {
    const KIND: &'static str = "OSError";
}
impl NotNodeError for serde_json::Error {
    const KIND: &'static str = "ValueError";
}

fn python_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// The text of a Python string literal.
fn unquoted(literal: &str) -> Option<String> {
    let mut chars = literal.chars();
    let quote = chars.next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut out = String::new();
    loop {
        match chars.next()? {
            c if c == quote => return chars.next().is_none().then_some(out),
            '\\' => out.push(match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                c @ ('\\' | '\'' | '"') => c,
                _ => return None,
            }),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reprs_are_pythons() {
        // FORMAT.md section 6: an error row holds `ValueError('boom')`.
        assert_eq!(NodeError::failed("ValueError", "boom").repr(), "ValueError('boom')");
        assert_eq!(NodeError::failed("CancelledError", "").repr(), "CancelledError()");
        assert_eq!(NodeError::failed("KeyError", "it's").repr(), "KeyError(\"it's\")");
    }

    #[test]
    fn reprs_are_read_back() {
        for message in ["boom", "", "it's", "a\n\"b\" 'c' \\"] {
            let error = NodeError::failed("KeyError", message);
            assert_eq!(NodeError::from_repr(&error.repr()), error);
        }
        let read = |repr| NodeError::from_repr(repr);
        assert_eq!(read("HTTPError(404, 'no')"), NodeError::failed("HTTPError", "404, 'no'"));
        assert_eq!(read("lost (twice)"), NodeError::failed("Exception", "lost (twice)"));
    }
}
