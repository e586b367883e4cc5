//! Scenarios, properties and the simulation binary.
//!
//! A simulation binary belongs to its user: it calls [`main`] with a [`Registry`] of graphs,
//! properties and models. The graphs of this repository go through that same door.

pub mod accounting;
pub mod case;
pub mod cli;
pub mod conformance;
pub mod declarative;
mod graph_world;
pub mod graphs;
mod history;
pub mod model;
pub mod outcome;
pub mod payment;
#[cfg(not(madsim))]
mod peer;
pub mod property;
pub mod registry;
pub mod scenario;
#[cfg(madsim)]
pub mod tables;
#[cfg(madsim)]
pub mod world;

pub use cli::main;
pub use graph_world::GraphWorld;
pub use model::Call;
pub use outcome::{Glimpse, Outcome, Sight, StoredThread, UnknownCharge};
pub use property::{Property, Violation};
pub use registry::{Registry, Vary};
pub use scenario::Scenario;

/// What a user's graph, model or property needs from the crates below, under one name.
pub mod prelude {
    pub use durasim_models::{Effect, EffectLog};
    pub use durasim_runtime::channels::Reducer;
    pub use durasim_runtime::{END, NodeContext, NodeError, START, State, StateGraph, Update};
    pub use durasim_sim::{Event, Labels};

    pub use crate::{Call, GraphWorld, Outcome, Property, Registry, Scenario, Violation};
}
