//! Checkpoints: what a thread's state was at the edge of a super-step, and where it is kept.

pub mod codec;
pub mod history;
pub mod id;
mod late;
pub mod layer;
pub mod memory;
pub mod postgres;
pub(crate) mod prune;
pub mod saver;
pub mod sqlite;
pub mod task_id;
pub mod version;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ordered::IndexMap;
use crate::value::Shared;

/// Newest checkpoint layout that LangGraph 1.2.9 writes.
pub const LAYOUT_VERSION: u64 = 4;

/// Versions of channels by channel name, in the order in which the channels were first written.
/// Python writes its dict in that order, so a checkpoint that is read and written again keeps its
/// bytes. Two with the same entries are equal in any order.
pub type ChannelVersions = IndexMap<Arc<str>, Arc<str>>;

/// The state of a thread at the edge of a super-step.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Savers keep checkpoints of any layout; a run goes on only from [`LAYOUT_VERSION`] or newer.
    pub layout: u64,
    /// UTC, ISO-8601 with microseconds and `+00:00`.
    pub ts: String,
    /// UUID version 6 as text; text order is time order.
    pub id: Arc<str>,
    /// Values of the channels that are not empty, in the order in which the graph declares them.
    pub channel_values: IndexMap<Arc<str>, Shared>,
    /// Version of every channel ever written.
    pub channel_versions: ChannelVersions,
    /// For each node, the versions of its trigger channels when it last ran.
    pub versions_seen: IndexMap<Arc<str>, ChannelVersions>,
    /// Channels that changed in this step and are available, sorted; `None` means "look at all".
    pub updated_channels: Option<Vec<Arc<str>>>,
}

/// What made a checkpoint.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Input,
    Loop,
    Update,
    Fork,
    /// Nothing was done: the checkpoint is empty, and stands before a run at exit durability so that
    /// writes to delta channels have something to hang on. It is stored without a source.
    Anchor,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Source::Input => "input",
            Source::Loop => "loop",
            Source::Update => "update",
            Source::Fork => "fork",
            Source::Anchor => "anchor",
        }
    }
}

/// What is known of a checkpoint besides the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    pub source: Source,
    /// -1 for the first input of a thread, 0 after `__start__`, then one per super-step.
    pub step: i64,
    /// Ancestor namespace to checkpoint id; empty at the root.
    pub parents: BTreeMap<String, String>,
    /// Everything else at the top level of the metadata object: the scalars of a run's
    /// `configurable` and `metadata`, and keys that we do not interpret.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Where checkpoints of one graph on one thread live. The root namespace is `""`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadKey {
    pub thread: Arc<str>,
    pub namespace: Arc<str>,
}

impl ThreadKey {
    pub fn root(thread: impl Into<Arc<str>>) -> ThreadKey {
        ThreadKey { thread: thread.into(), namespace: "".into() }
    }
}

/// One pending write of a task, as stored beside the checkpoint that the task started from.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingWrite {
    pub task: Arc<str>,
    pub channel: Arc<str>,
    pub value: Shared,
}

/// A checkpoint as a saver gives it back.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointTuple {
    pub key: ThreadKey,
    pub checkpoint: Checkpoint,
    pub metadata: Metadata,
    pub parent: Option<Arc<str>>,
    /// In the saver's order: by task id, then index (the memory saver: task path, task id, index).
    pub writes: Vec<PendingWrite>,
}

/// Names of channels and tasks that mean something to the runtime itself.
pub mod reserved {
    pub const ERROR: &str = "__error__";
    /// Beside an error that a handler takes care of: the name of the node that failed.
    pub const ERROR_SOURCE_NODE: &str = "__error_source_node__";
    pub const SCHEDULED: &str = "__scheduled__";
    pub const INTERRUPT: &str = "__interrupt__";
    pub const RESUME: &str = "__resume__";
    pub const NO_WRITES: &str = "__no_writes__";
    pub const INPUT: &str = "__input__";
    pub const START: &str = "__start__";
    pub const END: &str = "__end__";
    pub const TASKS: &str = "__pregel_tasks";
    pub const PULL: &str = "__pregel_pull";
    pub const PUSH: &str = "__pregel_push";
    /// The task id of writes that belong to no task (a command's input).
    pub const NULL_TASK: &str = "00000000-0000-0000-0000-000000000000";

    /// Fixed index of a special channel's row, or `None` for a regular write.
    pub fn fixed_index(channel: &str) -> Option<i64> {
        match channel {
            ERROR => Some(-1),
            SCHEDULED => Some(-2),
            INTERRUPT => Some(-3),
            RESUME => Some(-4),
            _ => None,
        }
    }
}
