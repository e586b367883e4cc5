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
}
