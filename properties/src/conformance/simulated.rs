//! A case in the simulated world: virtual time, and an order of tasks that the seed chooses.

use std::sync::Arc;

use durasim_sim::{RunOptions, World};

use super::{Case, StoreFactory, Verdict, check_any_order};
use crate::world::doors_of;

/// Runs a case under one seed. Its store is opened in a process of the world.
pub fn check_simulated(case: &Case, seed: u64, factory: Arc<StoreFactory>) -> Verdict {
    let case = case.clone();
    let finished = durasim_sim::run(seed, RunOptions::default(), move |world: World| {
        Box::pin(async move {
            let process = world.process("app", "app", |_| Box::pin(std::future::pending()));
            check_any_order(&case, &doors_of(&process), &*factory).await
        })
    });
    finished.value.unwrap_or_else(|crash| Verdict::Broken(crash.to_string()))
}
