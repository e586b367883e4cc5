//! The super-step loop: plan which tasks run, execute them, apply their writes, store the result.
//!
//! A run is a value that someone owns ([`crate::stream::RunStream`]). Who polls it, who drops it
//! and how, is what a handler shape is.

mod apply;
mod command;
mod commit;
mod config;
mod core;
mod error;
mod execute;
mod exit;
mod plan;
mod puts;
mod resume;
mod run;
mod snapshot;
mod task;

pub use config::{Command, Input, RunConfig};
pub(crate) use core::RunCore;
pub use error::RunError;
pub(crate) use exit::Finalizer;
pub(crate) use run::run;
pub use snapshot::{StateSnapshot, TaskSnapshot};
