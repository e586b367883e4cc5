//! Forgetting versions that nobody can see any more.
//!
//! Snapshots live as long as their statement, so between statements only the newest commit counts.
//! While a crash could still undo a commit, nothing is forgotten.

use std::collections::BTreeSet;

use super::{Store, Tid};

/// Below this a vacuum costs more than it saves.
const WORTH_IT: usize = 64;

impl Store {
    /// To be called only while no statement runs anywhere: they hold places of versions.
    pub fn vacuum(&mut self) {
        if self.xacts.has_unflushed() {
            return;
        }
        let xacts = &self.xacts;
        for table in self.tables.values_mut() {
            if table.garbage < WORTH_IT.max(table.versions.len() / 2) {
                continue;
            }
            table.garbage = 0;
            let before = table.versions.len();
            table.versions.retain(|_, version| {
                let ended = version.ended.is_some_and(|(xid, _)| xacts.is_committed(xid));
                !ended && !xacts.is_aborted(version.made.0)
            });
            if table.versions.len() == before {
                continue;
            }
            let alive: BTreeSet<Tid> = table.versions.keys().copied().collect();
            for index in &mut table.indexes {
                index.entries.retain(|_, tids| {
                    tids.retain(|tid| alive.contains(tid));
                    !tids.is_empty()
                });
            }
        }
        self.tables.retain(|_, table| {
            let gone = table.dropped.is_some_and(|xid| xacts.is_committed(xid));
            !gone && !xacts.is_aborted(table.created)
        });
    }
}
