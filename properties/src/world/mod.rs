//! What fits the runtime to the simulated world, and runs a scenario in it.

mod clients;
mod clocks;
mod database;
mod doors;
mod faults;
mod hold;
mod instruments;
mod moments;
mod observe;
mod rows;
mod run;
mod server;
mod store;

pub use doors::doors_of;
pub use run::{RunPlan, Sabotage, record, run, run_beside, run_case, try_compile};
