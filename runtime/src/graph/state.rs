use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::ordered::IndexMap;
use crate::value::{self, Shared, Value};

/// A key is missing from a state, or holds something else than was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error("the state has no value for {0:?}")]
    Missing(String),
    #[error("state key {key:?}: {problem}")]
    Unfit { key: String, problem: String },
    #[error("a map from state keys to values is expected, and not {0}")]
    NoMap(String),
}

/// What a node reads: the values of the channels at the start of its super-step. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State(Arc<Inner>);

#[derive(Debug, Default, PartialEq)]
struct Inner {
    values: IndexMap<Arc<str>, Shared>,
    /// What a Send carried, when that is no map.
    argument: Option<Shared>,
}

impl State {
    pub(crate) fn new(values: IndexMap<Arc<str>, Shared>) -> State {
        State(Arc::new(Inner { values, argument: None }))
    }

    /// What a Send carries: the node of a Send sees it in place of the state.
    pub(crate) fn of_argument(argument: &Shared) -> State {
        let Value::Map(entries) = &**argument else {
            let argument = Some(argument.clone());
            return State(Arc::new(Inner { values: IndexMap::default(), argument }));
        };
        let name = |key: &Value| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        State::new(entries.iter().map(|(k, v)| (name(k).into(), Arc::new(v.clone()))).collect())
    }

    /// All of it as a `T`: the state, or what a Send carried.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, StateError> {
        value::from_value(&self.to_value()).map_err(|e| StateError::Unfit {
            key: "(all of it)".to_owned(),
            problem: e.to_string(),
        })
    }

    /// The value of `key`, or `None` while its channel is empty.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.0.values.get(key).map(|shared| &**shared)
    }

    /// The value of `key` as a `T`.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Result<T, StateError> {
        read_key(key, self.value(key).ok_or_else(|| StateError::Missing(key.to_owned()))?)
    }

    /// As [`State::get`]; while the channel is empty, what nil reads as: `None` for an `Option`. A
    /// type that cannot be nil is missing.
    pub fn get_or_nil<T: DeserializeOwned>(&self, key: &str) -> Result<T, StateError> {
        match self.value(key) {
            Some(value) => read_key(key, value),
            None => value::from_value(&Value::Nil).map_err(|_| StateError::Missing(key.to_owned())),
        }
    }

    /// As [`State::get`], or `default` while the channel is empty.
    pub fn get_or<T: DeserializeOwned>(&self, key: &str, default: T) -> Result<T, StateError> {
        match self.value(key) {
            None => Ok(default),
            Some(_) => self.get(key),
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.values.keys().map(|key| &**key)
    }

    /// The whole state as one value, keys in the graph's order.
    pub fn to_value(&self) -> Value {
        if let Some(argument) = &self.0.argument {
            return (**argument).clone();
        }
        value::map(self.0.values.iter().map(|(key, value)| (key.to_string(), (**value).clone())))
    }
}

/// A value as a `T`; an error names its key.
pub(crate) fn read_key<T: DeserializeOwned>(key: &str, value: &Value) -> Result<T, StateError> {
    value::from_value(value)
        .map_err(|e| StateError::Unfit { key: key.to_owned(), problem: e.to_string() })
}
