//! How often nodes have failed on purpose.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts of raised errors by the path of the node: its name, behind those of the nodes that its
/// graph is in (`outer/inner`). Clones count together.
#[derive(Clone, Default)]
pub struct Raises(Arc<Mutex<BTreeMap<String, u64>>>);

impl Raises {
    /// Counts one more, unless the node has raised so many `times` already.
    pub(super) fn raises_again(&self, path: &str, times: Option<u64>) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(path.to_owned()).or_default();
        let again = times.is_none_or(|times| *count < times);
        *count += u64::from(again);
        again
    }

    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
