//! The graphs of this repository, each as its source tells it.

mod approval;
mod booking;
mod paying;
mod progress;

use crate::payment::Keying;
use crate::registry::Registry;

pub use progress::CHUNKS;

/// Registers them all.
pub fn register(registry: Registry) -> Registry {
    registry
        .graph("booking", booking::graph)
        .transcript("booking", "steps")
        .graph("fan", booking::fan)
        .transcript("fan", "steps")
        .graph("pay-no-key", |world| paying::graph(world, Keying::None))
        .transcript("pay-no-key", "steps")
        .graph("pay-minted-key", |world| paying::graph(world, Keying::Minted))
        .transcript("pay-minted-key", "steps")
        .graph("pay-look-up-first", |world| paying::graph(world, Keying::LookUpFirst))
        .transcript("pay-look-up-first", "steps")
        .graph("pay-fresh-key", |world| paying::graph(world, Keying::FreshOnConflict))
        .transcript("pay-fresh-key", "steps")
        .graph("pay-booking-key", |world| paying::graph(world, Keying::Booking))
        .transcript("pay-booking-key", "steps")
        .graph("monolithic", progress::monolithic)
        .effects("monolithic", &[])
        .graph("stepwise", progress::stepwise)
        .effects("stepwise", &[])
        .graph("approval", approval::graph)
        .effects("approval", &["approve"])
        .effects_named("approval", "approve", &["before_interrupt", "after_interrupt"])
}
