//! Where a command goes.

use durasim_runtime::NodeError;
use durasim_runtime::graph::{Goto, Send};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::expression::{Expression, Surroundings};

/// A node's name, or `{"node": .., "arg": ..}` for a Send. The values of an argument that is a map
/// may be worked out when the node runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Direction {
    Node(String),
    Send { node: String, arg: Json },
}

impl Direction {
    pub fn node(&self) -> &str {
        match self {
            Direction::Node(node) | Direction::Send { node, .. } => node,
        }
    }

    pub(super) fn goto(&self, around: &Surroundings<'_>) -> Result<Goto, NodeError> {
        match self {
            Direction::Node(node) => Ok(Goto::from(node.as_str())),
            Direction::Send { node, arg } => {
                Ok(Goto::Send(Send::new(node, argument(arg, around)?)))
            }
        }
    }

    /// As [`Direction::goto`], outside a node: an argument is taken as it is.
    pub fn plain(&self) -> Goto {
        match self {
            Direction::Node(node) => Goto::from(node.as_str()),
            Direction::Send { node, arg } => {
                Goto::Send(Send::new(node, durasim_runtime::value::from_json(arg.clone())))
            }
        }
    }
}

fn argument(
    arg: &Json,
    around: &Surroundings<'_>,
) -> Result<durasim_runtime::Value, NodeError> {
    let unfit = |problem: String| NodeError::failed("ValueError", problem);
    let whole = Expression::try_from(arg.clone()).map_err(unfit)?;
    let (Expression::Literal(Json::Object(entries)), _) = (&whole, ()) else {
        return whole.value(around);
    };
    let entries: &Map<String, Json> = entries;
    let mut values = Vec::with_capacity(entries.len());
    for (key, json) in entries {
        let value = Expression::try_from(json.clone()).map_err(unfit)?;
        values.push((key.clone(), value.value(around)?));
    }
    Ok(durasim_runtime::value::map(values))
}
