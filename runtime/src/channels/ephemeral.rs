use super::{Channel, ChannelError};
use crate::value::Shared;

/// Keeps a value for one step. LangGraph's `EphemeralValue` without its guard: the last of several
/// writes wins, and a step without a write empties it.
pub(super) struct Ephemeral(pub Option<Shared>);

impl Channel for Ephemeral {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        let moved = !values.is_empty() || self.0.is_some();
        self.0 = values.last().cloned();
        Ok(moved)
    }

    fn get(&self) -> Option<Shared> {
        self.0.clone()
    }
}
