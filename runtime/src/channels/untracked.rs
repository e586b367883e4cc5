use super::{Channel, ChannelError};
use crate::value::Shared;

/// Keeps the last value for as long as the run lasts; no checkpoint holds it. LangGraph's
/// `UntrackedValue` with its guard.
pub(super) struct Untracked(pub Option<Shared>);

impl Channel for Untracked {
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

    fn checkpoint(&self) -> Option<Shared> {
        None
    }
}
