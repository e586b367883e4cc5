//! Graphs as users write them, and as the runtime runs them.

mod builder;
mod check;
mod command;
mod compiled;
mod context;
mod error;
mod node;
mod options;
mod policy;
mod python_errors;
mod state;
mod timeout;

pub use builder::Persistence;
pub use builder::StateGraph;
pub(crate) use builder::branch_channel;
pub use command::{Command, Destination, Goto, IntoCommand, Resume, Send};
pub use compiled::CompiledGraph;
pub(crate) use compiled::{Channels, GraphInner, NodeBody, NodePlan, read};
pub use context::{Emitter, NodeContext};
pub(crate) use context::{NodeScope, Resumes};
pub use error::{GraphError, Interrupt, NodeError, NodeFailure};
pub use node::Update;
pub(crate) use node::{NodeFn, Router};
pub use options::NodeOptions;
pub use policy::{RetryOn, RetryPolicy};
pub(crate) use state::read_key;
pub use state::{State, StateError};
pub(crate) use timeout::TimedAttempt;
pub use timeout::{Refresh, TimeoutPolicy};

/// Where every run begins.
pub const START: &str = "START";
/// Where a path ends.
pub const END: &str = "END";
