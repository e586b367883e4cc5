//! Server processes: the user's graph over a saver, behind a handler shape.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use durasim_models::{EffectLog, LeakyLog, Postgres};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::sqlite::{SqliteOptions, SqliteSaver};
use durasim_runtime::http::{self, HandlerConfig, HandlerShape};
use durasim_runtime::{CompiledGraph, Saver};
use durasim_sim::{Process, World};

use super::doors::{Accepting, Around, doors};
use super::instruments::Measured;
use super::rows;
use super::store::{FaultySaver, StoreFaults};
use crate::graph_world::GraphWorld;
use crate::outcome::StoredThread;
use crate::registry::GraphEntry;
use crate::scenario::{Scenario, Shape, Store, server_name};

pub(super) const PORT: u16 = 80;
const BALANCER: &str = "balancer";
const HOST: &str = "server";
const DATABASE: &str = "checkpoints.sqlite";
const POSTGRES: &str = "postgres://durasim@postgres:5432/durasim";

/// All server processes of a world, across their restarts. They share a host and its disk.
#[derive(Clone)]
pub(super) struct Fleet {
    world: World,
    servers: Vec<Server>,
    /// The database server, if the store is one.
    database: Option<Postgres>,
    /// What clients connect to: the one server, or the balancer in front of several.
    pub front: &'static str,
}

/// One server process.
#[derive(Clone)]
struct Server {
    process: Process,
    state: Arc<Mutex<Running>>,
}

/// What the current incarnation runs.
#[derive(Default)]
struct Running {
    graph: Option<CompiledGraph>,
    memory: Option<MemorySaver>,
}

/// What every server of a world is started with.
#[derive(Clone)]
pub(super) struct Program {
    pub scenario: Arc<Scenario>,
    pub entry: GraphEntry,
    pub log: EffectLog,
    pub leaky: Option<LeakyLog>,
    pub faults: Arc<StoreFaults>,
    pub around: Around,
}

impl Fleet {
    pub fn start(world: &World, program: &Program, database: Option<Postgres>) -> Fleet {
        let workers = program.scenario.workers;
        let servers = (1..=workers).map(|nth| {
            let state: Arc<Mutex<Running>> = Arc::default();
            let (program, running) = (program.clone(), state.clone());
            let process = world.process(&server_name(nth), HOST, move |process| {
                Box::pin(boot(process, program.clone(), running.clone()))
            });
            Server { process, state }
        });
        let servers = servers.collect();
        let front = match (workers, program.scenario.shape) {
            (1, _) | (_, Shape::Direct) => "server-1",
            _ => {
                let names = (1..=workers).map(server_name).collect();
                durasim_models::balancer::start(world, BALANCER, PORT, names);
                BALANCER
            }
        };
        Fleet { world: world.clone(), servers, database, front }
    }

    /// Returns when every server has booted.
    pub async fn booted(&self) {
        for server in &self.servers {
            server.graph().await;
        }
    }

    /// The process that a direct client is a task of, and its graph.
    pub async fn direct(&self) -> (Process, CompiledGraph) {
        let first = &self.servers[0];
        (first.process.clone(), first.graph().await)
    }

    /// The stored rows of these threads, as they are now.
    pub async fn rows(
        &self,
        store: Store,
        threads: &[&str],
    ) -> Result<BTreeMap<String, StoredThread>, String> {
        let mut rows: BTreeMap<String, StoredThread> =
            threads.iter().map(|thread| (thread.to_string(), StoredThread::default())).collect();
        match store {
            Store::Sqlite => {
                rows::from_sqlite(&self.world.disk(HOST), DATABASE, &mut rows)?;
            }
            Store::Postgres => {
                if let Some(database) = &self.database {
                    rows::from_postgres(database, &mut rows)?;
                }
            }
            Store::Memory => {
                let saver = self.servers[0].running().memory.clone();
                if let Some(saver) = saver {
                    for (thread, stored) in &mut rows {
                        *stored = rows::from_memory(&saver, thread).await?;
                    }
                }
            }
        }
        Ok(rows)
    }
}

impl Server {
    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The graph of the running incarnation, once it has booted.
    async fn graph(&self) -> CompiledGraph {
        loop {
            if let Some(graph) = self.running().graph.clone() {
                return graph;
            }
            self.process.world().sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

/// One life of a server: open the store, compile the graph, serve.
async fn boot(process: Process, program: Program, running: Arc<Mutex<Running>>) {
    let Program { scenario, entry, log, leaky, faults, around } = program;
    let doors = doors(&process, around);
    let options = scenario.options().expect("options are read once before a sweep");
    let mut memory = None;
    let late_writes = options.late_writes;
    let inner: Arc<dyn Saver> = match scenario.store {
        Store::Sqlite => {
            let choices = SqliteOptions { late_writes, ..SqliteOptions::default() };
            let opening = SqliteSaver::open_with(DATABASE, &doors, choices);
            opening.await.expect("the database opens")
        }
        Store::Postgres => {
            let choices = PostgresOptions { late_writes, ..PostgresOptions::default() };
            let opening = PostgresSaver::open_with(POSTGRES, &doors, choices);
            opening.await.expect("the database opens")
        }
        Store::Memory => {
            let saver = MemorySaver::with(&doors, late_writes);
            memory = Some(saver.clone());
            Arc::new(saver)
        }
    };
    let saver: Arc<dyn Saver> = Arc::new(FaultySaver { inner, faults, process: process.clone() });
    let world = GraphWorld::inside(Arc::new(Measured {
        process: process.clone(),
        log,
        leaky,
        effects: scenario.effects,
        attempts: Default::default(),
    }));
    let graph = (entry.build)(&world).compile(Some(saver), &doors, options);
    let graph = graph.expect("graphs are compiled once before a sweep");
    *running.lock().unwrap_or_else(PoisonError::into_inner) =
        Running { graph: Some(graph.clone()), memory };
    let shape = match scenario.shape {
        Shape::Direct => return,
        Shape::Inline => HandlerShape::Inline,
        Shape::Background => HandlerShape::Background,
        Shape::Shielded => HandlerShape::Shielded,
    };
    let config = HandlerConfig {
        durability: scenario.durability,
        modes: scenario.stream_modes.clone(),
        cancel: scenario.cancel,
    };
    let listener = process.listen(PORT).expect("the port is free");
    let router = http::router(shape, graph, config);
    let served = http::serve(Accepting(listener), router, &doors).await;
    served.expect("a listener of a living process accepts");
}
