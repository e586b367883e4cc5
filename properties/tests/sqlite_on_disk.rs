//! What a run costs the disk under its saver, and what becomes of it when the disk is full.
#![cfg(madsim)]

use std::sync::Arc;

use durasim_properties::world::doors_of;
use durasim_runtime::checkpoint::saver::{ListFilter, Saver, SaverError};
use durasim_runtime::checkpoint::sqlite::{FileProblem, SqliteSaver};
use durasim_runtime::pregel::{Input, RunConfig, RunError};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeError, Profile, START, State, StateGraph, Update,
    Value, value,
};
use durasim_sim::{Process, RunOptions, World, run};

const FILE: &str = "checkpoints.sqlite";
const STEPS: u64 = 40;
/// The input's, the entry's, and one a step.
const CHECKPOINTS: u64 = STEPS + 2;

fn counting(saver: Arc<dyn Saver>, doors: &Doors) -> CompiledGraph {
    let graph = StateGraph::new("counting")
        .key("n")
        .node("count", |state: State, _| async move {
            let n: u64 = state.get_or("n", 0)?;
            Ok::<_, NodeError>(Update::new().set_value("n", Value::from(n + 1)))
        })
        .edge(START, "count")
        .branch("count", &["count", END], |state| {
            Ok(vec![if state.get::<u64>("n")? < STEPS { "count" } else { END }])
        });
    graph.compile(Some(saver), doors, Profile::Safe.options()).expect("a graph")
}

async fn play(
    graph: &CompiledGraph,
    durability: Durability,
    input: Input,
) -> Result<Value, RunError> {
    graph.invoke(input, RunConfig::new("t").durability(durability)).await
}

fn input() -> Input {
    Input::New(value::map([("n", Value::from(0))]))
}

fn server(world: &World) -> (Process, Doors) {
    let process = world.process("server", "box", |_| Box::pin(std::future::pending()));
    let doors = doors_of(&process);
    (process, doors)
}

/// How often a run makes the disk sync.
fn syncs(durability: Durability, seed: u64) -> u64 {
    let finished = run(seed, RunOptions::default(), move |world| {
        Box::pin(async move {
            let (process, doors) = server(&world);
            let saver = SqliteSaver::open(FILE, &doors).await.expect("the database opens");
            let graph = counting(saver, &doors);
            let before = process.disk().sync_count();
            play(&graph, durability, input()).await.expect("a run");
            process.disk().sync_count() - before
        })
    });
    finished.value.expect("no crash")
}

#[test]
fn a_step_is_one_commit_at_sync_and_many_share_one_at_async() {
    for seed in 0..50 {
        let sync = syncs(Durability::Sync, seed);
        // The input's checkpoint waits for nobody, and may share the next one's commit.
        assert!((CHECKPOINTS - 1..=CHECKPOINTS).contains(&sync), "seed {seed}: {sync} at sync");
        let beside = syncs(Durability::Async, seed);
        assert!(beside * 3 <= CHECKPOINTS, "seed {seed}: {beside} at async");
        let exit = syncs(Durability::Exit, seed);
        assert!(exit <= 2, "seed {seed}: {exit} at exit");
    }
}

/// A run on a disk of so many bytes more than an empty database, which goes on when there is room
/// again. True when there was enough; the error says what is wrong.
fn on_a_small_disk(durability: Durability, room: u64, seed: u64) -> Result<bool, String> {
    let finished = run(seed, RunOptions::default(), move |world| {
        Box::pin(async move {
            let (process, doors) = server(&world);
            let saver = SqliteSaver::open(FILE, &doors).await.expect("the database opens");
            let graph = counting(saver.clone(), &doors);
            let disk = process.disk();
            let used: usize = disk.all().iter().map(|(_, bytes)| bytes.len()).sum();
            disk.set_capacity(Some(used as u64 + room));
            let first = play(&graph, durability, input()).await;
            let stored = saver.list("t", None, ListFilter::default()).await;
            let stored = stored.map_err(|error| error.to_string())?;
            disk.set_capacity(None);
            let newest = stored.first().map(|tuple| tuple.metadata.step);
            let is_chain =
                stored.windows(2).all(|two| two[0].parent.as_ref() == Some(&two[1].checkpoint.id));
            if !is_chain {
                return Err(format!("checkpoints up to {newest:?} have holes"));
            }
            match first {
                Ok(_) if newest == Some(STEPS as i64) => return Ok(true),
                Err(RunError::Saver(SaverError::File { problem: FileProblem::DiskFull, path }))
                    if path == FILE && newest < Some(STEPS as i64) => {}
                end => return Err(format!("{end:?} with {newest:?} stored")),
            }
            // The same saver, the same process.
            let next = if newest.is_some() { Input::Resume } else { input() };
            let end = play(&graph, durability, next).await.map_err(|error| error.to_string())?;
            match end.as_map().and_then(|map| map[0].1.as_u64()) {
                Some(STEPS) => Ok(false),
                n => Err(format!("it went on to {n:?}")),
            }
        })
    });
    finished.value.map_err(|crash| crash.to_string())?
}

#[test]
fn a_full_disk_ends_a_run_with_what_it_has_stored_and_the_saver_goes_on() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let (mut enough, mut full) = (0, 0);
        for (seed, room) in (0..2_000_000).step_by(25_000).enumerate() {
            match on_a_small_disk(durability, room, seed as u64) {
                Ok(true) => enough += 1,
                Ok(false) => full += 1,
                Err(problem) => panic!("{} with {room} bytes: {problem}", durability.name()),
            }
        }
        assert!(enough > 0 && full > 0, "{}: {enough} had room", durability.name());
    }
}
