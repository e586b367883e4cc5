//! The graphs of this repository, each as its source tells it.

mod approval;
mod booking;
mod progress;

use crate::registry::Registry;

pub use progress::CHUNKS;

/// Registers them all.
pub fn register(registry: Registry) -> Registry {
    registry
        .graph("booking", booking::graph)
        .transcript("booking", "steps")
        .graph("fan", booking::fan)
        .transcript("fan", "steps")
        .graph("monolithic", progress::monolithic)
        .effects("monolithic", &[])
        .graph("stepwise", progress::stepwise)
        .effects("stepwise", &[])
        .graph("approval", approval::graph)
        .effects("approval", &["approve"])
}
