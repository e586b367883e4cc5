//! Where a command goes.

use durasim_runtime::START;
use durasim_runtime::checkpoint::reserved;
use durasim_runtime::graph::{Goto, Send};
use durasim_runtime::value::from_json;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A node's name, or `{"node": .., "arg": ..}` for a Send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Direction {
    Node(String),
    Send {
        node: String,
        #[serde(default)]
        arg: Json,
    },
}

impl Direction {
    pub fn node(&self) -> &str {
        match self {
            Direction::Node(node) | Direction::Send { node, .. } => node,
        }
    }

    pub fn goto(&self) -> Goto {
        match self {
            Direction::Node(node) if node == START => Goto::from(reserved::START),
            Direction::Node(node) => Goto::from(node.as_str()),
            Direction::Send { node, arg } => Goto::Send(Send::new(node, from_json(arg.clone()))),
        }
    }
}
