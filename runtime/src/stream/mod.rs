//! What a run lets its consumer see while it runs.

mod outlet;
mod run_stream;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::Value;
pub(crate) use outlet::Outlet;
pub use run_stream::RunStream;

/// What a stream carries. The order of modes in a request does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamMode {
    /// The whole state after every step that changed it.
    Values,
    /// What each node wrote, by node name.
    Updates,
    /// What nodes emit while they run.
    Custom,
    /// Model output that nodes emit piece by piece: pairs of a piece and what is known of its node.
    Messages,
    /// Each task as it starts, and as it ends.
    Tasks,
    /// Each checkpoint as the next step is planned from it.
    Checkpoints,
    /// Tasks and checkpoints, each wrapped with its step, time and type.
    Debug,
}

impl StreamMode {
    pub const ALL: [StreamMode; 7] = [
        StreamMode::Values,
        StreamMode::Updates,
        StreamMode::Custom,
        StreamMode::Messages,
        StreamMode::Tasks,
        StreamMode::Checkpoints,
        StreamMode::Debug,
    ];

    pub fn name(self) -> &'static str {
        match self {
            StreamMode::Values => "values",
            StreamMode::Updates => "updates",
            StreamMode::Custom => "custom",
            StreamMode::Messages => "messages",
            StreamMode::Tasks => "tasks",
            StreamMode::Checkpoints => "checkpoints",
            StreamMode::Debug => "debug",
        }
    }
}

impl fmt::Display for StreamMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One item of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk {
    pub mode: StreamMode,
    /// Where it comes from: empty for the graph that was run, `<node>:<task id>` and so on for the
    /// graphs inside it.
    pub namespace: Arc<[Arc<str>]>,
    pub data: Value,
}
