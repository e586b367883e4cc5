//! The shape of a graph's description.
//!
//! Features that the runtime does not have yet are read too, so that [`super::unsupported`] can
//! name them. A key that is not known here is an error: a graph is never built from half of its
//! description.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_before: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_after: Option<Json>,
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
    pub retry: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subgraph: Option<Json>,
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
    pub sends: Option<Json>,
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
    Goto {
        to: Json,
        #[serde(skip_serializing_if = "Option::is_none")]
        graph: Option<String>,
    },
}

fn boom() -> String {
    "boom".to_owned()
}

impl GraphSpec {
    /// Every action of every node, also inside branches.
    pub fn actions(&self) -> Vec<&Action> {
        let mut found: Vec<&Action> = Vec::new();
        let mut todo: Vec<&Action> = self.nodes.values().flat_map(|node| &node.actions).collect();
        while let Some(action) = todo.pop() {
            if let Action::If { then, otherwise, .. } = action {
                todo.extend(then.iter().chain(otherwise));
            }
            found.push(action);
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
