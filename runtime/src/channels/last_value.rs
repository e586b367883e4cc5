use super::{Channel, ChannelError};
use crate::value::Shared;

/// Keeps the last value. LangGraph's `LastValue`.
pub(super) struct LastValue(pub Option<Shared>);

impl Channel for LastValue {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        match values {
            [] => Ok(false),
            [value] => {
                self.0 = Some(value.clone());
                Ok(true)
            }
            more => Err(ChannelError::Conflict(more.len())),
        }
    }

    fn get(&self) -> Option<Shared> {
        self.0.clone()
    }
}
