//! The shape of a graph's description.
//!
//! A key that is not known here is an error: a graph is never built from half of its description.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::direction::Direction;
use super::expression::Expression;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    pub channels: IndexMap<String, ChannelSpec>,
    pub nodes: IndexMap<String, NodeSpec>,
    #[serde(default)]
    pub edges: Vec<EdgeSpec>,
    #[serde(default)]
    pub conditional_edges: Vec<ConditionalSpec>,
    /// Names of nodes; `*` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_before: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_after: Option<OneOrMany>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelSpec {
    pub reducer: ReducerSpec,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReducerSpec {
    LastValue,
    /// Concatenates lists; starts as `[]`.
    Append,
    /// Adds integers; starts as 0.
    Add,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    #[serde(default)]
    pub actions: Vec<Action>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub defer: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
    /// A graph in place of actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subgraph: Option<Box<GraphSpec>>,
}

/// Tries the node again: waits of `initial_interval` seconds (LangGraph's 0.5 if absent), no backoff,
/// no jitter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySpec {
    pub max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_interval: Option<f64>,
    /// Names of error classes; LangGraph's own choice if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<String>>,
}

/// One Send for each item of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendsSpec {
    /// The channel that holds the list.
    pub channel: String,
    pub node: String,
    /// The argument is a map with the item under this key.
    pub arg_key: String,
}

impl NodeSpec {
    /// A node that does these things and no more.
    pub fn of(actions: Vec<Action>) -> NodeSpec {
        NodeSpec { actions, defer: false, retry: None, subgraph: None }
    }
}

/// `[from, to]`, or `[[from, ..], to]` for a join.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EdgeSpec(pub OneOrMany, pub String);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub fn to_vec(&self) -> Vec<String> {
        match self {
            OneOrMany::One(name) => vec![name.clone()],
            OneOrMany::Many(names) => names.clone(),
        }
    }
}

/// A conditional edge: the text of a channel's value, looked up in a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionalSpec {
    pub from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    #[serde(default)]
    pub table: IndexMap<String, OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sends: Option<SendsSpec>,
}

/// One thing that a node does. Actions run in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Action {
    Sleep {
        ms: u64,
    },
    /// Sends a value to the stream at once.
    Emit {
        value: Expression,
    },
    /// Something that the outside sees.
    Effect {
        label: String,
    },
    /// Adds to what the node returns in the end.
    Write {
        values: IndexMap<String, Expression>,
    },
    Interrupt {
        payload: Expression,
    },
    /// Fails, the first `times` times that this node raises anything; always without `times`.
    Raise {
        error: String,
        #[serde(default = "boom")]
        message: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        times: Option<u64>,
    },
    If {
        channel: String,
        eq: Json,
        then: Vec<Action>,
        #[serde(default, rename = "else")]
        otherwise: Vec<Action>,
    },
    /// Makes the node return a command, which goes there. Of several, the last counts.
    Goto {
        to: OneOrManyDirections,
        #[serde(skip_serializing_if = "Option::is_none")]
        graph: Option<TargetGraph>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrManyDirections {
    One(Direction),
    Many(Vec<Direction>),
}

impl OneOrManyDirections {
    pub fn as_slice(&self) -> &[Direction] {
        match self {
            OneOrManyDirections::One(one) => std::slice::from_ref(one),
            OneOrManyDirections::Many(many) => many,
        }
    }
}

/// Which graph a command is meant for, if not the node's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetGraph {
    Parent,
}

fn boom() -> String {
    "boom".to_owned()
}

impl GraphSpec {
    /// Every action of every node, also inside branches and subgraphs.
    pub fn actions(&self) -> Vec<&Action> {
        let mut found: Vec<&Action> = Vec::new();
        for node in self.nodes.values() {
            found.extend(flatten(&node.actions));
            found.extend(node.subgraph.iter().flat_map(|graph| graph.actions()));
        }
        found
    }

    /// Class names of the errors that nodes raise themselves.
    pub fn raised(&self) -> Vec<&str> {
        self.actions()
            .into_iter()
            .filter_map(|action| match action {
                Action::Raise { error, .. } => Some(error.as_str()),
                _ => None,
            })
            .collect()
    }
}

/// Actions, and those inside their branches.
pub(crate) fn flatten(actions: &[Action]) -> Vec<&Action> {
    let mut found: Vec<&Action> = Vec::new();
    let mut todo: Vec<&Action> = actions.iter().collect();
    while let Some(action) = todo.pop() {
        if let Action::If { then, otherwise, .. } = action {
            todo.extend(then.iter().chain(otherwise));
        }
        found.push(action);
    }
    found
}
