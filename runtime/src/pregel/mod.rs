//! The super-step loop: plan which tasks run, execute them, apply their writes, store the result.
//!
//! A run is a value that someone owns ([`crate::stream::RunStream`]). Who polls it, who drops it
//! and how, is what a handler shape is.

mod apply;
mod cached;
mod checkpoints;
mod command;
mod commit;
mod config;
mod core;
mod deltas;
mod drain;
mod entered;
mod error;
mod execute;
mod exit;
mod handler;
mod nested;
mod node;
mod plan;
mod puts;
mod resume;
mod run;
mod running;
mod show;
mod snapshot;
mod task;
mod timed;
mod turns;
mod update;

pub use crate::graph::Command;
pub use config::{Input, RunConfig};
pub(crate) use core::{Family, RunCore};
pub(crate) use deltas::Rebuilt;
pub use drain::RunControl;
pub use error::RunError;
pub(crate) use exit::Finalizer;
pub(crate) use run::{Start, run};
pub use snapshot::{StateSnapshot, TaskSnapshot};
pub(crate) use task::Handled;
pub use task::Origin;
pub use update::StateUpdate;
