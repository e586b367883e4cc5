//! Three runs on two threads, and the log of the disk that they leave.

use std::sync::{Arc, Mutex};

use durasim_properties::world::doors_of;
use durasim_runtime::channels::Reducer;
use durasim_runtime::checkpoint::sqlite::{SqliteOptions, SqliteSaver, Synchronous};
use durasim_runtime::doors::Opener;
use durasim_runtime::pregel::{Input, RunConfig, RunError};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeError, Profile, START, Saver, State, StateGraph,
    Update, Value, value,
};
use durasim_sim::{DiskLog, Process, RunOptions, World, run};

use super::witness::{Acknowledges, Notes, Witness};

pub const HOST: &str = "box";
pub const FILE: &str = "checkpoints.sqlite";
pub const THREADS: [&str; 2] = ["a", "b"];
/// Rounds of a run, each a step of two nodes and one that joins them.
const ROUNDS: u64 = 3;

/// What happened, from outside.
pub struct Recording {
    pub log: DiskLog,
    pub notes: Notes,
}

impl Recording {
    pub fn acknowledged(&self) -> usize {
        self.notes.acknowledged
    }
}

/// The world's opener, with a WAL that is soon folded into the file: that, too, is cut short.
struct ShortWal(Arc<dyn Opener>);

impl Opener for ShortWal {
    fn open(&self, path: &str) -> rusqlite::Result<rusqlite::Connection> {
        let connection = self.0.open(path)?;
        connection.pragma_update(None, "wal_autocheckpoint", 24)?;
        Ok(connection)
    }
}

pub fn idle(world: &World) -> Process {
    world.process("server", HOST, |_| Box::pin(std::future::pending()))
}

pub async fn open(process: &Process, synchronous: Synchronous) -> (Doors, Arc<SqliteSaver>) {
    let doors = doors_of(process);
    let doors = Doors { opener: Arc::new(ShortWal(doors.opener.clone())), ..doors };
    let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
    let saver = SqliteSaver::open_with(FILE, &doors, options).await.expect("the database opens");
    (doors, saver)
}

/// Two nodes beside each other and one after them, round after round, beside some ballast.
pub fn graph(saver: Arc<dyn Saver>, doors: &Doors) -> CompiledGraph {
    let note = |name: &'static str| {
        move |_: State, _| async move {
            let step = Value::Array(vec![name.into()]);
            Ok::<_, NodeError>(Update::new().set_value("steps", step).set_value(name, 1.into()))
        }
    };
    let graph = StateGraph::new("rounds")
        .reduced_key("steps", Reducer::append())
        .key("left")
        .key("right")
        .key("rounds")
        .key("ballast")
        .node("left", note("left"))
        .node("right", note("right"))
        .node("join", |state: State, _| async move {
            let rounds: u64 = state.get_or("rounds", 0)?;
            Ok::<_, NodeError>(Update::new().set_value("rounds", Value::from(rounds + 1)))
        })
        .edge(START, "left")
        .edge(START, "right")
        .join(&["left", "right"], "join")
        .branch("join", &["left", "right", END], |state| {
            let is_over = state.get::<u64>("rounds")? % ROUNDS == 0;
            Ok(if is_over { vec![END] } else { vec!["left", "right"] })
        });
    graph.compile(Some(saver), doors, Profile::Safe.options()).expect("a graph")
}

/// The values of a finished run after so many runs on its thread.
pub fn is_whole(values: &Value, runs: u64) -> bool {
    let at = |key: &str| {
        let entries = values.as_map().into_iter().flatten();
        entries.clone().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
    };
    let steps = at("steps").and_then(Value::as_array).map_or(0, Vec::len) as u64;
    at("rounds").and_then(Value::as_u64) == Some(runs * ROUNDS) && steps == 2 * runs * ROUNDS
}

pub fn input() -> Input {
    Input::New(value::map([("ballast", Value::from("x".repeat(5_000)))]))
}

pub async fn play(
    graph: &CompiledGraph,
    thread: &str,
    input: Input,
    durability: Durability,
) -> Result<Value, RunError> {
    graph.invoke(input, RunConfig::new(thread).durability(durability)).await
}

/// Plays the workload under a seed.
pub fn record(
    seed: u64,
    durability: Durability,
    synchronous: Synchronous,
    acknowledges: Acknowledges,
) -> Recording {
    let finished = run(seed, RunOptions::default(), move |world| {
        Box::pin(async move {
            let server = idle(&world);
            let disk = server.disk();
            disk.keep_log();
            let (doors, inner) = open(&server, synchronous).await;
            let notes: Arc<Mutex<Notes>> = Arc::default();
            let witness = Witness { inner, disk: disk.clone(), acknowledges, notes: notes.clone() };
            let graph = graph(Arc::new(witness), &doors);
            let twice = async {
                for runs in 1..=2 {
                    let values = play(&graph, "a", input(), durability).await.expect("a run");
                    assert!(is_whole(&values, runs), "{values}");
                }
            };
            let once = async {
                let values = play(&graph, "b", input(), durability).await.expect("a run");
                assert!(is_whole(&values, 1), "{values}");
            };
            futures::future::join(twice, once).await;
            let notes = notes.lock().unwrap().clone();
            (disk.log(), notes)
        })
    });
    let (log, notes) = finished.value.expect("the workload ends");
    Recording { log, notes }
}
