//! The values that actions write.

use durasim_runtime::value::from_json;
use durasim_runtime::{NodeError, State, Value};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// A value, or how to work one out when the node runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Json", into = "Json")]
pub enum Expression {
    /// `{"$node": true}`: the node's own name.
    Node,
    /// `{"$list_node": true}`: a list of just that name.
    ListNode,
    /// `{"$get": channel}`: from the node's input.
    Get(String),
    /// `{"$add": [channel, k]}`.
    Add(String, i64),
    /// `{"$resume": i}`: the answer to this execution's i-th interrupt, or null.
    Resume(usize),
    /// `{"$list": [..]}`.
    List(Vec<Expression>),
    Literal(Json),
}

/// What an expression may look at.
pub(super) struct Surroundings<'a> {
    pub node: &'a str,
    pub input: &'a State,
    pub answers: &'a [Value],
}

impl TryFrom<Json> for Expression {
    type Error = String;

    fn try_from(json: Json) -> Result<Expression, String> {
        let special = json.as_object().and_then(|object| match object.iter().next() {
            Some((key, value)) if object.len() == 1 && key.starts_with('$') => Some((key, value)),
            _ => None,
        });
        let Some((key, value)) = special else { return Ok(Expression::Literal(json)) };
        let unfit = || format!("{key}: {value} does not fit");
        match key.as_str() {
            "$node" => Some(Expression::Node),
            "$list_node" => Some(Expression::ListNode),
            "$get" => value.as_str().map(|channel| Expression::Get(channel.into())),
            "$resume" => value.as_u64().map(|index| Expression::Resume(index as usize)),
            "$add" => match value.as_array().map(Vec::as_slice) {
                Some([Json::String(channel), k]) => {
                    k.as_i64().map(|k| Expression::Add(channel.clone(), k))
                }
                _ => None,
            },
            "$list" => {
                let items = value.as_array().ok_or_else(unfit)?;
                let items = items.iter().cloned().map(Expression::try_from);
                return Ok(Expression::List(items.collect::<Result<_, _>>()?));
            }
            other => return Err(format!("{other} is not a kind of value that is known here")),
        }
        .ok_or_else(unfit)
    }
}

impl From<Expression> for Json {
    fn from(expression: Expression) -> Json {
        match expression {
            Expression::Node => json!({ "$node": true }),
            Expression::ListNode => json!({ "$list_node": true }),
            Expression::Get(channel) => json!({ "$get": channel }),
            Expression::Add(channel, k) => json!({ "$add": [channel, k] }),
            Expression::Resume(index) => json!({ "$resume": index }),
            Expression::List(items) => {
                json!({ "$list": items.into_iter().map(Json::from).collect::<Vec<_>>() })
            }
            Expression::Literal(json) => json,
        }
    }
}

impl Expression {
    pub(super) fn value(&self, around: &Surroundings<'_>) -> Result<Value, NodeError> {
        Ok(match self {
            Expression::Node => Value::from(around.node),
            Expression::ListNode => Value::Array(vec![around.node.into()]),
            // An absent key reads as Python's `dict.get` does.
            Expression::Get(channel) => around.input.value(channel).cloned().unwrap_or(Value::Nil),
            Expression::Add(channel, k) => {
                let sum = around.input.get_or::<i64>(channel, 0)?.checked_add(*k);
                Value::from(sum.ok_or_else(|| NodeError::failed("OverflowError", "$add"))?)
            }
            Expression::Resume(index) => around.answers.get(*index).cloned().unwrap_or(Value::Nil),
            Expression::List(items) => {
                let items = items.iter().map(|item| item.value(around));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Expression::Literal(json) => from_json(json.clone()),
        })
    }
}
