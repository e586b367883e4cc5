use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::overwrite::overwritten;
use super::{Channel, ChannelError};
use crate::value::{self, Shared, Value};

type Fold = dyn Fn(Value, &Value) -> Result<Value, String> + Send + Sync;

/// How writes to a key fold into its value: an initial value and a function.
#[derive(Clone)]
pub struct Reducer {
    initial: Shared,
    fold: Arc<Fold>,
}

impl Reducer {
    /// `fold` gets the value so far and one write; an `Err` names what does not fit.
    pub fn new(
        initial: Value,
        fold: impl Fn(Value, &Value) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Reducer {
        Reducer { initial: Arc::new(initial), fold: Arc::new(fold) }
    }

    /// A function over a type of the user's: the value so far and one write give the next value.
    /// It may refuse a write ([`Folded`]). Starts as the type's default.
    ///
    /// Panics when the default cannot be serialized.
    pub fn of<T, R>(fold: impl Fn(T, T) -> R + Send + Sync + 'static) -> Reducer
    where
        T: Serialize + DeserializeOwned + Default,
        R: Folded<T>,
    {
        let initial = value::to_value(&T::default()).expect("the default can be written");
        Reducer::new(initial, move |sum, write| {
            let read = |value| value::from_value::<T>(value).map_err(|error| error.to_string());
            let folded = fold(read(&sum)?, read(write)?).folded()?;
            value::to_value(&folded).map_err(|error| error.to_string())
        })
    }

    /// Lists are concatenated; starts as `[]`.
    pub fn append() -> Reducer {
        Reducer::new(Value::Array(vec![]), |mut sum, write| match (&mut sum, write) {
            (Value::Array(items), Value::Array(more)) => {
                items.extend(more.iter().cloned());
                Ok(sum)
            }
            (_, other) => Err(format!("appends lists, and got {other}")),
        })
    }

    /// Integers are summed; starts as 0.
    pub fn add() -> Reducer {
        Reducer::new(Value::from(0), |sum, write| {
            let fits =
                |value: &Value| value.as_i64().ok_or(format!("adds integers, and got {value}"));
            let total = fits(&sum)?.checked_add(fits(write)?);
            total.map(Value::from).ok_or_else(|| "the sum leaves 64 bits".to_owned())
        })
    }
}

/// What a fold over `T` gives: the next value, or why a write is refused.
pub trait Folded<T> {
    fn folded(self) -> Result<T, String>;
}

impl<T> Folded<T> for T {
    fn folded(self) -> Result<T, String> {
        Ok(self)
    }
}

impl<T, E: ToString> Folded<T> for Result<T, E> {
    fn folded(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

/// Folds writes with a reducer. LangGraph's `BinaryOperatorAggregate`: readable as its initial
/// value from the start, but without a version until first written.
pub(super) struct Aggregate {
    reducer: Reducer,
    value: Shared,
}

impl Aggregate {
    pub fn new(reducer: Reducer, stored: Option<Shared>) -> Aggregate {
        let value = stored.unwrap_or_else(|| reducer.initial.clone());
        Aggregate { reducer, value }
    }
}

impl Channel for Aggregate {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        if values.is_empty() {
            return Ok(false);
        }
        let mut sum = Arc::unwrap_or_clone(self.value.clone());
        let mut is_overwritten = false;
        for write in values {
            match overwritten(write) {
                Some(_) if is_overwritten => return Err(ChannelError::TwoOverwrites),
                Some(whole) => {
                    sum = whole;
                    is_overwritten = true;
                }
                // What else was written in the same step is lost, as in LangGraph.
                None if is_overwritten => {}
                None => sum = (self.reducer.fold)(sum, write).map_err(ChannelError::Unfit)?,
            }
        }
        self.value = Arc::new(sum);
        Ok(true)
    }

    fn get(&self) -> Option<Shared> {
        Some(self.value.clone())
    }
}
