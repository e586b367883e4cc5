use super::{Channel, ChannelError};
use crate::value::Shared;

/// Keeps the last value of a step, taking several for equal. LangGraph's `AnyValue`: a step
/// without a write empties it.
pub(super) struct AnyValue(pub Option<Shared>);

impl Channel for AnyValue {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        let moved = !values.is_empty() || self.0.is_some();
        self.0 = values.last().cloned();
        Ok(moved)
    }

    fn get(&self) -> Option<Shared> {
        self.0.clone()
    }
}
