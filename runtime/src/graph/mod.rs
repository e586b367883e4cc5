//! Graphs as users write them, and as the runtime runs them.

mod builder;
mod compiled;
mod context;
mod error;
mod node;
mod state;

pub use builder::StateGraph;
pub(crate) use builder::branch_channel;
pub use compiled::CompiledGraph;
pub(crate) use compiled::{Channels, GraphInner, NodePlan};
pub use context::{Emitter, NodeContext};
pub(crate) use context::{NodeScope, Resumes};
pub use error::{GraphError, NodeError};
pub use node::{IntoUpdate, Router, Targets, Update};
pub use state::{State, StateError};

/// Where every run begins.
pub const START: &str = "START";
/// Where a path ends.
pub const END: &str = "END";
