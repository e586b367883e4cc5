use std::sync::Arc;

use indexmap::IndexMap;
use serde::de::DeserializeOwned;

use crate::value::{self, Shared, Value};

/// A key is missing from a state, or holds something else than was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error("the state has no value for {0:?}")]
    Missing(String),
    #[error("state key {key:?}: {problem}")]
    Unfit { key: String, problem: String },
}

/// What a node reads: the values of the channels at the start of its super-step. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State(Arc<IndexMap<Arc<str>, Shared>>);

impl State {
    pub(crate) fn new(values: IndexMap<Arc<str>, Shared>) -> State {
        State(Arc::new(values))
    }

    /// The value of `key`, or `None` while its channel is empty.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.0.get(key).map(|shared| &**shared)
    }

    /// The value of `key` as a `T`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T, StateError> {
        let value = self.value(key).ok_or_else(|| StateError::Missing(key.to_owned()))?;
        value::from_value(value)
            .map_err(|e| StateError::Unfit { key: key.to_owned(), problem: e.to_string() })
    }

    /// As [`State::get`], or `default` while the channel is empty.
    pub fn get_or<T: DeserializeOwned>(&self, key: &str, default: T) -> Result<T, StateError> {
        match self.value(key) {
            None => Ok(default),
            Some(_) => self.get(key),
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|key| &**key)
    }

    /// The whole state as one value, keys in the graph's order.
    pub fn to_value(&self) -> Value {
        value::map(self.0.iter().map(|(key, value)| (key.to_string(), (**value).clone())))
    }
}
