//! What a SQLite file costs: each durability against a bare loop that commits the same rows, on a
//! real file system. All of them take turns, round by round, as a disk has moods.

use std::path::PathBuf;
use std::sync::Arc;

use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{CompiledGraph, Doors, Durability, Saver, StreamMode, Value, value};
use futures::StreamExt;

use super::floor::Rows;
use super::{Figure, LONG_RUN, LOOP, counting, memory, micros, now, resident};

const LARGE: usize = 1 << 20;

/// A folder of files, which goes away with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let folder = std::env::temp_dir().join(format!("durasim-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Folder(folder))
    }

    /// A path at which there is no file.
    fn fresh(&self) -> Result<String, String> {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(self.0.join(format!("bench.sqlite{end}")));
        }
        let path = self.0.join("bench.sqlite");
        path.to_str().map(str::to_owned).ok_or_else(|| "a path that is not text".to_owned())
    }

    /// The file system that it is on, as the kernel names it.
    fn file_system(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let of_line = |line: &str| {
            let mut words = line.split(' ').skip(1);
            let (mounted, kind) = (words.next()?.to_owned(), words.next()?.to_owned());
            self.0.starts_with(&mounted).then_some((mounted.len(), kind))
        };
        let nearest = mounts.lines().filter_map(of_line).max();
        nearest.map_or_else(|| "unknown".to_owned(), |(_, kind)| kind)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the thread's input brings, which no step touches.
#[derive(Clone, Copy)]
pub(super) enum Beside {
    Little,
    /// Many small values, so that encoding them is more than copying.
    Large,
}

impl Beside {
    pub(super) fn input(self) -> Input {
        let untouched = match self {
            Beside::Little => Value::from("x".repeat(1_000)),
            Beside::Large => {
                let word = "fifteen letters";
                Value::Array(vec![Value::from(word); LARGE / (word.len() + 1)])
            }
        };
        Input::New(value::map([("untouched", untouched)]))
    }
}

/// One way of running the loop.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Memory,
    File(Durability),
}

/// Figures, and a line on where and how they were measured.
pub(super) async fn bench(rounds: u32) -> Result<(Vec<Figure>, String), String> {
    let folder = Folder::new()?;
    let about = format!(
        "SQLite files: {} ({}), journal_mode WAL, synchronous FULL, the rest as SQLite has it.",
        folder.0.display(),
        folder.file_system()
    );
    let mut figures = loops(&folder, rounds).await?;
    figures.extend(beside_large(&folder, rounds).await?);
    figures.push(long_run(&folder).await?);
    Ok((figures, about))
}

async fn loops(folder: &Folder, rounds: u32) -> Result<Vec<Figure>, String> {
    let rows = rows(folder, LOOP, Beside::Little).await?;
    let ways = [
        Way::Memory,
        Way::File(Durability::Sync),
        Way::File(Durability::Async),
        Way::File(Durability::Exit),
    ];
    let steps = rows.steps() as f64;
    let mut floor = Vec::new();
    let mut costs = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        floor.push(commit(folder, &rows)?);
        for (way, costs) in ways.iter().zip(&mut costs) {
            costs.push(run(folder, *way, LOOP, Beside::Little).await?);
        }
    }
    let floor = median(floor) / steps;
    let [memory, sync, beside, exit] = [0, 1, 2, 3].map(|i| median(costs[i].clone()) / steps);
    let of = |name, per_step, aim: String| Figure {
        name,
        unit: "us a step",
        per_unit: per_step,
        of_floor: Some(per_step / floor),
        aim,
    };
    let most = memory + 2.0 * floor / steps;
    Ok(vec![
        of("SQLite file: one bare commit a step (the floor)", floor, "-".to_owned()),
        of("SQLite file: the loop at sync", sync, "1.3 of the floor".to_owned()),
        of("SQLite file: the loop at async", beside, "0.33 of the floor".to_owned()),
        of("SQLite file: the loop at exit", exit, format!("{most:.2}: memory and 2 commits")),
        of("the same at exit in memory", memory, "-".to_owned()),
    ])
}

async fn beside_large(folder: &Folder, rounds: u32) -> Result<Vec<Figure>, String> {
    let rows = rows(folder, LOOP, Beside::Large).await?;
    let steps = rows.steps() as f64;
    let (mut floor, mut sync) = (Vec::new(), Vec::new());
    for _ in 0..rounds.min(3) {
        floor.push(commit(folder, &rows)?);
        let way = Way::File(Durability::Sync);
        sync.push(run(folder, way, LOOP, Beside::Large).await?);
    }
    let (floor, sync) = (median(floor) / steps, median(sync) / steps);
    let of = |name, per_step, aim: &str| Figure {
        name,
        unit: "us a step",
        per_unit: per_step,
        of_floor: Some(per_step / floor),
        aim: aim.to_owned(),
    };
    Ok(vec![
        of("beside 1 MiB that no step touches: bare commits", floor, "-"),
        of("beside 1 MiB that no step touches: sync", sync, "1.3 of the floor"),
    ])
}

/// What stays in memory of each step of a long run, counted from its tenth part on.
async fn long_run(folder: &Folder) -> Result<Figure, String> {
    run(folder, Way::File(Durability::Async), LONG_RUN / 10, Beside::Little).await?;
    let before = resident()?;
    run(folder, Way::File(Durability::Async), LONG_RUN, Beside::Little).await?;
    let grown = resident()?.saturating_sub(before) as f64;
    Ok(Figure {
        name: "SQLite file: kept of each of 100,000 steps at async",
        unit: "bytes a step",
        per_unit: grown / LONG_RUN as f64,
        of_floor: None,
        aim: "0".to_owned(),
    })
}

/// The rows that the loop leaves at sync durability.
async fn rows(folder: &Folder, steps: u64, beside: Beside) -> Result<Rows, String> {
    let path = folder.fresh()?;
    run_at(&path, Way::File(Durability::Sync), steps, beside).await?;
    Rows::read(&path).map_err(|error| error.to_string())
}

fn commit(folder: &Folder, rows: &Rows) -> Result<f64, String> {
    let took = rows.commit(&folder.fresh()?).map_err(|error| error.to_string())?;
    Ok(took.as_secs_f64() * 1e6)
}

async fn run(folder: &Folder, way: Way, steps: u64, beside: Beside) -> Result<f64, String> {
    run_at(&folder.fresh()?, way, steps, beside).await
}

/// Microseconds of one run on a fresh store. Opening and closing it are not counted.
async fn run_at(path: &str, way: Way, steps: u64, beside: Beside) -> Result<f64, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut file = None;
    let (saver, durability): (Arc<dyn Saver>, _) = match way {
        Way::Memory => (memory(), Durability::Exit),
        Way::File(durability) => {
            let opened = SqliteSaver::open(path, &Doors::production()).await;
            let opened = opened.map_err(|error| text(&error))?;
            file = Some(opened.clone());
            (opened, durability)
        }
    };
    let graph: CompiledGraph = counting(Some(saver), steps)?;
    let mut config = RunConfig::new("t").durability(durability);
    config.recursion_limit = 1_000_000;
    let input = beside.input();
    let started = now();
    // Updates and not values, of which every step would copy the whole state.
    let mut stream = graph.stream(input, config.modes(&[StreamMode::Updates]));
    while let Some(chunk) = stream.next().await {
        chunk.map_err(|error| text(&error))?;
    }
    let took = micros(started);
    if let Some(file) = file {
        file.close().await.map_err(|error| text(&error))?;
    }
    Ok(took)
}

pub(super) fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}
