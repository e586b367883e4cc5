//! Maps and sets that keep the order in which their keys came.
//!
//! Their hasher is the same everywhere, and cheap. Keys are names of channels and nodes, and ids of
//! the runtime's own making: no stranger chooses them so that they collide.

use foldhash::fast::FixedState;

pub type IndexMap<K, V> = indexmap::IndexMap<K, V, FixedState>;
pub type IndexSet<K> = indexmap::IndexSet<K, FixedState>;
