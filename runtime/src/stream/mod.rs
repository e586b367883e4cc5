//! What a run lets its consumer see while it runs.

mod outlet;
mod run_stream;

use std::fmt;

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
    /// Model output that nodes emit piece by piece. Nothing emits any yet, but asking for it has
    /// the effect that it has in LangGraph: nodes run as tasks of their own.
    Messages,
}

impl StreamMode {
    pub const ALL: [StreamMode; 4] =
        [StreamMode::Values, StreamMode::Updates, StreamMode::Custom, StreamMode::Messages];

    pub fn name(self) -> &'static str {
        match self {
            StreamMode::Values => "values",
            StreamMode::Updates => "updates",
            StreamMode::Custom => "custom",
            StreamMode::Messages => "messages",
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
    pub data: Value,
}
