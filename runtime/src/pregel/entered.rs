//! How often a run entered each of its nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by a run and those inside it. Costs no allocation but for a node's first entry.
#[derive(Default)]
pub(crate) struct Entered(Mutex<BTreeMap<Name, u64>>);

/// The names of the nodes around a graph, and a node of it.
type Name = (Arc<str>, Arc<str>);

impl Entered {
    /// Counts one more attempt of `node`.
    pub fn add(&self, around: &Arc<str>, node: &Arc<str>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((around.clone(), node.clone())).or_default() += 1;
    }

    /// By name; nodes of graphs inside have the names of the nodes around them in front.
    pub fn by_name(&self) -> BTreeMap<Arc<str>, u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |((around, node), count): (&Name, &u64)| {
            let whole = match around.is_empty() {
                true => node.clone(),
                false => format!("{around}|{node}").into(),
            };
            (whole, *count)
        };
        counts.iter().map(name).collect()
    }
}
