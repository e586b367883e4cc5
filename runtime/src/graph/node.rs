use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::Serialize;

use super::{Command, Goto, IntoCommand, NodeContext, NodeError, State, StateError};
use crate::value::{self, Shared, Value};

/// What a node writes: a partial state. Keys keep the order in which they were set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Update {
    pub(crate) writes: Vec<(Arc<str>, Shared)>,
    pub(crate) problem: Option<StateError>,
}

impl Update {
    /// Writes nothing.
    pub fn new() -> Update {
        Update::default()
    }

    /// Writes `value` to `key`; setting a key again replaces its value.
    pub fn set<T: Serialize>(mut self, key: &str, value: T) -> Update {
        match value::to_value(&value) {
            Ok(value) => self.put(key, value),
            Err(error) => {
                let problem = StateError::Unfit { key: key.to_owned(), problem: error.to_string() };
                self.problem.get_or_insert(problem);
            }
        }
        self
    }

    /// Writes a value as it is, extension types included.
    pub fn set_value(mut self, key: &str, value: Value) -> Update {
        self.put(key, value);
        self
    }

    /// Writes `value` past the key's reducer: it becomes the whole value.
    pub fn overwrite<T: Serialize>(mut self, key: &str, value: T) -> Update {
        match crate::channels::overwrite(&value) {
            Ok(value) => self.put(key, value),
            Err(error) => {
                let problem = StateError::Unfit { key: key.to_owned(), problem: error.to_string() };
                self.problem.get_or_insert(problem);
            }
        }
        self
    }

    /// The entries of a map, in their order; anything else is told apart by `Err`.
    pub(crate) fn from_map(value: &Value) -> Result<Update, &Value> {
        let Value::Map(entries) = value else { return Err(value) };
        let mut update = Update::new();
        for (key, value) in entries {
            match key.as_str() {
                Some(key) => update.put(key, value.clone()),
                None => update.put(&key.to_string(), value.clone()),
            }
        }
        Ok(update)
    }

    fn put(&mut self, key: &str, value: Value) {
        match self.writes.iter_mut().find(|(k, _)| &**k == key) {
            Some((_, old)) => *old = Arc::new(value),
            None => self.writes.push((key.into(), Arc::new(value))),
        }
    }
}

pub(crate) type NodeFn =
    Arc<dyn Fn(State, NodeContext) -> BoxFuture<'static, Result<Command, NodeError>> + Send + Sync>;

pub(crate) fn node_fn<F, Fut, U>(node: F) -> NodeFn
where
    F: Fn(State, NodeContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<U, NodeError>> + Send + 'static,
    U: IntoCommand,
{
    Arc::new(move |state, context| {
        let running = node(state, context);
        Box::pin(async move { running.await.map(IntoCommand::into_command) })
    })
}

/// Chooses where to go after a node. Sees the state after the node's own writes.
pub(crate) type Router = Arc<dyn Fn(&State) -> Result<Vec<Goto>, StateError> + Send + Sync>;
