use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::channels::{ChannelSpec, Folded, Reducer, overwritten};
use crate::graph::{StateError, read_key};
use crate::value::Value;

/// One key of a typed state: its channel, and what may be written to it from outside.
#[derive(Clone)]
pub struct Field {
    pub(super) key: &'static str,
    pub(super) channel: ChannelSpec,
    pub(super) check: fn(&str, &Value) -> Result<(), StateError>,
}

impl Field {
    /// Holds the last value; two writes in one step are an error.
    pub fn last_value<T: DeserializeOwned>(key: &'static str) -> Field {
        Field { key, channel: ChannelSpec::LastValue, check: fits::<T> }
    }

    /// Lists are concatenated.
    pub fn append<T: DeserializeOwned>(key: &'static str) -> Field {
        let channel = ChannelSpec::Reducer(Reducer::append());
        Field { key, channel, check: folds_in::<Vec<T>> }
    }

    /// Integers are summed.
    pub fn add<T: Integer>(key: &'static str) -> Field {
        let channel = ChannelSpec::Reducer(Reducer::add());
        Field { key, channel, check: folds_in::<T> }
    }

    /// Writes are folded, as by [`Reducer::of`].
    pub fn reduced<T, R>(
        key: &'static str,
        fold: impl Fn(T, T) -> R + Send + Sync + 'static,
    ) -> Field
    where
        T: Serialize + DeserializeOwned + Default,
        R: Folded<T>,
    {
        let channel = ChannelSpec::Reducer(Reducer::of(fold));
        Field { key, channel, check: folds_in::<T> }
    }

    /// Holds the last value of a step, for the next one; several are taken to agree.
    pub fn any<T: DeserializeOwned>(key: &'static str) -> Field {
        Field { key, channel: ChannelSpec::AnyValue, check: fits::<T> }
    }

    /// Holds the last value for as long as the run lasts.
    pub fn untracked<T: DeserializeOwned>(key: &'static str) -> Field {
        Field { key, channel: ChannelSpec::Untracked, check: fits::<T> }
    }

    /// Holds every value written, over all steps or in the last one.
    pub fn topic<T: DeserializeOwned>(key: &'static str, accumulates: bool) -> Field {
        Field { key, channel: ChannelSpec::Topic { accumulates }, check: joins::<T> }
    }
}

fn fits<T: DeserializeOwned>(key: &str, value: &Value) -> Result<(), StateError> {
    read_key::<T>(key, value).map(drop)
}

/// A write to a reducer may go past it.
fn folds_in<T: DeserializeOwned>(key: &str, value: &Value) -> Result<(), StateError> {
    match overwritten(value) {
        Some(whole) => fits::<T>(key, &whole),
        None => fits::<T>(key, value),
    }
}

/// A topic takes one item or a list of them.
fn joins<T: DeserializeOwned>(key: &str, value: &Value) -> Result<(), StateError> {
    match value {
        Value::Array(_) => fits::<Vec<T>>(key, value),
        one => fits::<T>(key, one),
    }
}

/// What [`Field::add`] sums.
#[diagnostic::on_unimplemented(message = "`add` sums integers, and `{Self}` is none")]
pub trait Integer: Serialize + DeserializeOwned + Default {}

macro_rules! integers {
    ($($integer:ty)*) => { $(impl Integer for $integer {})* };
}

integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
