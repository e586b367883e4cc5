//! The tables measured on the real stack, recomputed in the simulator, cell beside cell.
//!
//! A simulator is worth as much as its likeness. What was measured stands in `measured.rs`, typed in
//! by hand; every simulated cell is read from outside the runtime: from what a reloaded page shows,
//! from the stored rows, from the log of effects, from what the client saw. A cell that differs is
//! a fact about the stack that the simulator does not have, whatever its tests say.
//!
//! The tables are the faithful profile's. Under the safe one some cells differ, and those are
//! what the safe profile is for.

mod concurrent;
mod handlers;
mod interrupt;
mod measured;
mod quantity;
mod render;
mod simulated;
mod streaming;
mod table;

pub use simulated::Stand;
pub use table::{Cell, Row, Table};

use crate::registry::Registry;
use crate::world::RunPlan;
use simulated::Simulated;

/// Every table, recomputed with one seed.
///
/// # Panics
/// If the registry lacks one of this repository's graphs; see [`crate::graphs::register`].
pub fn all(registry: &Registry, seed: u64) -> Vec<Table> {
    all_on(registry, Stand::default(), RunPlan { seed, ..RunPlan::default() })
}

/// As [`all`], on another stand or with the engine broken on purpose: then cells must differ, or the
/// tables see nothing.
///
/// # Panics
/// As [`all`].
pub fn all_on(registry: &Registry, stand: Stand, plan: RunPlan) -> Vec<Table> {
    let simulated = Simulated { registry, stand, plan };
    let mut tables = vec![streaming::table(&simulated), interrupt::table(&simulated)];
    tables.extend(measured::HANDLERS.iter().map(|spec| handlers::table(&simulated, spec)));
    tables.extend([concurrent::at_once(&simulated), concurrent::by_load(&simulated)]);
    tables
}
