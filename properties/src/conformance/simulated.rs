//! A case in the simulated world: virtual time, and an order of tasks that the seed chooses.

use durasim_models::{Postgres, PostgresSettings};
use durasim_runtime::Saver;
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_sim::{RunOptions, World};

use super::store::{Rows, Store, StoreFactory, memory_store, sqlite_store};
use super::{Case, Verdict, check_any_order};
use crate::world::doors_of;

/// Where a world keeps the threads of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    Memory,
    /// A SQLite file on the simulated disk.
    Sqlite,
    /// A PostgreSQL server on a host of its own.
    Postgres,
}

impl Keeps {
    /// Makes the case's store in this world, once for each process that opens it.
    pub(super) fn in_world(self, world: &World) -> Box<StoreFactory> {
        match self {
            Keeps::Memory => memory_store(),
            Keeps::Sqlite => sqlite_store("cases"),
            Keeps::Postgres => on_server(world),
        }
    }
}

fn on_server(world: &World) -> Box<StoreFactory> {
    let postgres = Postgres::new(PostgresSettings::default());
    drop(postgres.serve(world));
    Box::new(move |_, doors| {
        let url = format!("postgres://durasim@{}:{}/durasim", Postgres::NAME, Postgres::PORT);
        let (opening, postgres) = (PostgresSaver::open(&url, doors), postgres.clone());
        Box::pin(async move {
            let saver: std::sync::Arc<dyn Saver> = opening.await?;
            Ok(Store { saver, rows: Rows::Postgres(postgres) })
        })
    })
}

/// Runs a case under one seed. Its store is opened in a process of the world.
pub fn check_simulated(case: &Case, seed: u64, keeps: Keeps) -> Verdict {
    let case = case.clone();
    let finished = durasim_sim::run(seed, RunOptions::default(), move |world: World| {
        Box::pin(async move {
            let factory = keeps.in_world(&world);
            let process = world.process("app", "app", |_| Box::pin(std::future::pending()));
            check_any_order(&case, &doors_of(&process), &*factory).await
        })
    });
    finished.value.unwrap_or_else(|crash| Verdict::Broken(crash.to_string()))
}
