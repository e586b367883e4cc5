//! What happened to a disk, operation by operation, and what it holds when the host stops after any
//! of them.
//!
//! SQLite calls take no virtual time, so nothing can strike inside one. With the log it can: the
//! first `k` operations are done again on a disk of their own, and the host is stopped there. The
//! replay goes forward by one operation at a time, so that looking at all points of a long log costs
//! no more than the looks.

use std::sync::Arc;

use super::{Content, Disk};
use crate::Chance;
use crate::lock::lock;

/// One operation that reached a disk.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Create { name: Arc<str> },
    Write { name: Arc<str>, offset: u64, bytes: Box<[u8]> },
    Truncate { name: Arc<str>, len: u64 },
    Sync { name: Arc<str>, is_journal: bool },
    Delete { name: Arc<str>, is_synced: bool },
}

/// All operations since [`Disk::keep_log`].
#[derive(Clone, Debug, Default)]
pub struct DiskLog {
    pub(super) operations: Vec<Operation>,
}

impl DiskLog {
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// At the first operation, on an empty disk.
    pub fn replay(&self) -> Replay<'_> {
        let disk = Disk::new("replay", Chance::new(0));
        Replay { log: self, done: 0, disk, syncs: Syncs::Count }
    }
}

/// Does a sync do anything?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syncs {
    Count,
    /// As on hardware that lies.
    Lie,
}

/// The disk after the first operations of a log.
pub struct Replay<'a> {
    log: &'a DiskLog,
    done: usize,
    disk: Disk,
    syncs: Syncs,
}

/// Files by name, as a host finds them when it comes up again.
pub type Files = Vec<(String, Vec<u8>)>;

impl Replay<'_> {
    /// From here on syncs do nothing: what a check for lost writes must notice.
    pub fn with_lying_syncs(mut self) -> Self {
        self.syncs = Syncs::Lie;
        self
    }

    /// How many operations are done.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Does the next operation; false at the end of the log.
    pub fn advance(&mut self) -> bool {
        let Some(operation) = self.log.operations.get(self.done) else { return false };
        self.done += 1;
        let disk = &self.disk;
        let with = |name: &str, change: &dyn Fn(&mut Content)| {
            if let Some(file) = disk.find(name) {
                change(&mut lock(&file).content);
            }
        };
        match operation {
            Operation::Create { name } => drop(disk.create(name)),
            Operation::Write { name, offset, bytes } => {
                with(name, &|content| content.write(*offset, bytes));
            }
            Operation::Truncate { name, len } => with(name, &|content| content.truncate(*len)),
            Operation::Sync { .. } if self.syncs == Syncs::Lie => {}
            Operation::Sync { name, is_journal } => {
                if let Some(file) = disk.find(name) {
                    disk.sync(&file, *is_journal);
                }
            }
            Operation::Delete { name, is_synced } => drop(disk.delete(name, *is_synced)),
        }
        true
    }

    /// The processes of the host are killed here. The OS keeps everything.
    pub fn kill(&self) -> Files {
        self.disk.all()
    }

    /// The power fails here. `seed` says what of the unsynced pages survives.
    pub fn cut_power(&self, seed: u64) -> Files {
        let disk = self.disk.copy(Chance::new(seed));
        disk.cut_power();
        disk.all()
    }
}
