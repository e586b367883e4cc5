//! Server processes: the user's graph over a saver, behind a handler shape.

use std::sync::{Arc, Mutex, PoisonError};

use durasim_models::EffectLog;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::http::{self, HandlerConfig, HandlerShape};
use durasim_runtime::{CompiledGraph, Saver};
use durasim_sim::{Process, World};

use super::doors::{Accepting, doors};
use super::rows;
use super::store::{FaultySaver, StoreFaults};
use crate::outcome::StoredThread;
use crate::registry::{GraphEntry, GraphWorld};
use crate::scenario::{Scenario, Shape, Store};

pub(super) const NAME: &str = "server-1";
pub(super) const PORT: u16 = 80;
const HOST: &str = "server";
const DATABASE: &str = "checkpoints.sqlite";

/// A server of the world, across its restarts.
#[derive(Clone)]
pub(super) struct Server {
    pub process: Process,
    state: Arc<Mutex<Running>>,
}

/// What the current incarnation runs.
#[derive(Default)]
struct Running {
    graph: Option<CompiledGraph>,
    memory: Option<MemorySaver>,
}

impl Server {
    pub fn start(
        world: &World,
        scenario: &Scenario,
        entry: &GraphEntry,
        log: &EffectLog,
        faults: Arc<StoreFaults>,
    ) -> Server {
        let state: Arc<Mutex<Running>> = Arc::default();
        let (scenario, entry, log) = (scenario.clone(), entry.clone(), log.clone());
        let running = state.clone();
        let process = world.process(NAME, HOST, move |process| {
            let (scenario, entry, log) = (scenario.clone(), entry.clone(), log.clone());
            let (faults, running) = (faults.clone(), running.clone());
            Box::pin(boot(process, scenario, entry, log, faults, running))
        });
        Server { process, state }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The graph of the running incarnation, once it has booted.
    pub async fn graph(&self) -> CompiledGraph {
        loop {
            if let Some(graph) = self.running().graph.clone() {
                return graph;
            }
            self.process.world().sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// The stored rows of a thread, as they are now.
    pub async fn rows(&self, store: Store, thread: &str) -> Result<StoredThread, String> {
        match store {
            Store::Sqlite => {
                let disk = self.process.disk();
                if !disk.files().iter().any(|file| file == DATABASE) {
                    return Ok(StoredThread::default());
                }
                let db = self.process.world().inspect_sqlite(HOST, DATABASE);
                rows::from_sqlite(&db.map_err(|error| error.to_string())?, thread)
            }
            Store::Memory => {
                let saver = self.running().memory.clone();
                match saver {
                    Some(saver) => rows::from_memory(&saver, thread).await,
                    None => Ok(StoredThread::default()),
                }
            }
        }
    }
}

/// One life of the server: open the store, compile the graph, serve.
async fn boot(
    process: Process,
    scenario: Scenario,
    entry: GraphEntry,
    log: EffectLog,
    faults: Arc<StoreFaults>,
    running: Arc<Mutex<Running>>,
) {
    let doors = doors(&process);
    let mut memory = None;
    let inner: Arc<dyn Saver> = match scenario.store {
        Store::Sqlite => SqliteSaver::open(DATABASE, &doors).await.expect("the database opens"),
        Store::Memory => {
            let saver = MemorySaver::new(&doors);
            memory = Some(saver.clone());
            Arc::new(saver)
        }
    };
    let saver: Arc<dyn Saver> = Arc::new(FaultySaver { inner, faults });
    let world = GraphWorld::inside(process.clone(), log);
    let graph = (entry.build)(&world).compile(Some(saver), &doors, scenario.profile.options());
    let graph = graph.expect("graphs are compiled once before a sweep");
    *running.lock().unwrap_or_else(PoisonError::into_inner) =
        Running { graph: Some(graph.clone()), memory };
    let shape = match scenario.shape {
        Shape::Direct => None,
        Shape::Inline => Some(HandlerShape::Inline),
        Shape::Background => Some(HandlerShape::Background),
        Shape::Shielded => Some(HandlerShape::Shielded),
    };
    if let Some(shape) = shape {
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
}
