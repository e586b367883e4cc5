//! What is stored: tables, the versions of their rows, and which transactions have committed.
//!
//! Every change to a row is a new version beside the old one. A version names the transaction that
//! made it and the one that ended it; a snapshot tells which of those a statement sees. Aborting is
//! one entry in the list of transactions and touches no row, and so is losing a commit in a crash.

mod catalog;
mod index;
mod snapshot;
mod table;
mod vacuum;
mod xacts;

pub use catalog::{Store, Undo};
pub use index::Index;
pub use snapshot::Snapshot;
pub use table::{Column, Default, Table, Tid, Version};
pub use xacts::{Status, Xacts, Xid};
