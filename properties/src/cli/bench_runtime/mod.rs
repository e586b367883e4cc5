//! `bench --runtime`: what the runtime costs on its own, on real tokio, without a world.
//!
//! Medians over the rounds. For scale, on one core of a like machine: Python LangGraph 1.2.9 makes
//! about 1,900 super-steps a second bare, 1,700 with its memory saver, and 4,000 Send tasks.

mod floor;
mod postgres;
mod sqlite;

use std::sync::Arc;
use std::time::Instant;

use comfy_table::{LineStyle, Table, TableStyle};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::graph::{Command, Send};
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::value;
use durasim_runtime::{
    CompiledGraph, Doors, END, NodeError, Profile, START, Saver, State, StateGraph, Update, Value,
};
use serde_json::json;

use crate::cli::args::BenchArgs;

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));
const LOOP: u64 = 200;
const LONG_LOOP: u64 = 10_000;
/// A run of this many steps must not keep anything of each.
const LONG_RUN: u64 = 100_000;
const CHAIN: usize = 3_000;

/// One measured thing: what, of how many units, and what is known to compare with.
struct Figure {
    name: &'static str,
    unit: &'static str,
    per_unit: f64,
    /// Against a bare loop that leaves the same on the disk.
    of_floor: Option<f64>,
    aim: String,
}

/// Always true: a bench finds nothing.
pub fn bench(args: &BenchArgs) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let rounds = args.rounds;
    let (figures, about) = runtime.block_on(async {
        let bare = counting(None, LOOP)?;
        let stored = || counting(Some(memory()), LOOP);
        let mut figures = Vec::new();
        let mut add = |name, unit, per_unit, aim: &str| {
            figures.push(Figure { name, unit, per_unit, of_floor: None, aim: aim.to_owned() })
        };
        let before = resident()?;
        let kept = counting(Some(memory()), LONG_LOOP)?;
        run(&kept).await?;
        let grown = (resident()?.saturating_sub(before)) as f64 / LONG_LOOP as f64;
        add("kept of each of its steps", "bytes a step", grown, "2048");
        drop(kept);
        let steps = LOOP + 1;
        add(
            "a loop of 200 steps, bare",
            "us a step",
            per(rounds, steps, || Ok(bare.clone())).await?,
            "-",
        );
        add("with the memory saver", "us a step", per(rounds, steps, stored).await?, "3");
        let long = || counting(Some(memory()), LONG_LOOP);
        add(
            "a loop of 10,000 steps, memory saver",
            "us a step",
            per(rounds.min(5), LONG_LOOP + 1, long).await?,
            "as of 200",
        );
        let started = now();
        let line = chain()?;
        add("building a chain of 3,000 nodes", "us a node", micros(started) / CHAIN as f64, "-");
        add(
            "running it, bare",
            "us a node",
            per(rounds.min(5), CHAIN as u64, || Ok(line.clone())).await?,
            "as of the loop",
        );
        for (name, width) in [("a fan of 100 Sends", 100), ("a fan of 10,000 Sends", 10_000)] {
            let fan = fan(width)?;
            add(name, "us a task", per(rounds.min(5), width, || Ok(fan.clone())).await?, "5");
        }
        let (in_files, mut about) = sqlite::bench(rounds).await?;
        figures.extend(in_files);
        if let Some(url) = &args.postgres {
            let (on_a_server, how) = postgres::bench(url, rounds).await?;
            figures.extend(on_a_server);
            about += &format!("\n{how}");
        }
        Ok::<_, String>((figures, about))
    })?;
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(["", "median", "unit", "a second", "of the floor", "aim"]);
    for Figure { name, unit, per_unit, of_floor, aim } in &figures {
        let rate =
            if unit.starts_with("us") { format!("{:.0}", 1e6 / per_unit) } else { String::new() };
        if args.json {
            say!(
                "{}",
                json!({
                    "figure": name, "unit": unit, "median": per_unit, "of_floor": of_floor, "aim": aim,
                })
            );
        }
        table.add_row([
            (*name).to_owned(),
            format!("{per_unit:.2}"),
            (*unit).to_owned(),
            rate,
            of_floor.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            aim.clone(),
        ]);
    }
    match args.json {
        true => say!(
            "{}",
            json!({ "summary": "bench", "ok": true, "figures": figures.len(), "files": about })
        ),
        false => say!("{table}\n\n{about}"),
    }
    Ok(true)
}

fn memory() -> Arc<dyn Saver> {
    Arc::new(MemorySaver::new(&Doors::production()))
}

fn compile(graph: StateGraph, saver: Option<Arc<dyn Saver>>) -> Result<CompiledGraph, String> {
    let options = Profile::Safe.options();
    graph.compile(saver, &Doors::production(), options).map_err(|error| error.to_string())
}

/// A node that counts to `limit`, once a super-step, beside a state that nobody touches.
fn counting(saver: Option<Arc<dyn Saver>>, limit: u64) -> Result<CompiledGraph, String> {
    let graph = StateGraph::new("counting")
        .key("n")
        .key("untouched")
        .node("count", |state: State, _| async move {
            let n: u64 = state.get_or("n", 0)?;
            Ok::<_, NodeError>(Update::new().set_value("n", Value::from(n + 1)))
        })
        .edge(START, "count")
        .branch("count", &["count", END], move |state| {
            Ok(vec![if state.get::<u64>("n")? < limit { "count" } else { END }])
        });
    compile(graph, saver)
}

fn chain() -> Result<CompiledGraph, String> {
    let names: Vec<String> = (0..CHAIN).map(|i| format!("n{i:04}")).collect();
    let mut graph = StateGraph::new("chain").key("n");
    for name in &names {
        graph = graph.node(name, |_: State, _| async {
            Ok::<_, NodeError>(Update::new().set_value("n", Value::from(1)))
        });
    }
    let mut path = vec![START];
    path.extend(names.iter().map(String::as_str));
    path.push(END);
    compile(graph.sequence(&path), None)
}

fn fan(width: u64) -> Result<CompiledGraph, String> {
    let graph = StateGraph::new("fan")
        .key("n")
        .node_with("split", durasim_runtime::graph::NodeOptions::new().destinations(&["work"]), {
            move |_: State, _| async move {
                let send = |i| Send::new("work", Value::from(i));
                let sends = (0..width).map(send);
                Ok::<_, NodeError>(sends.fold(Command::new(), |command, send| command.goto(send)))
            }
        })
        .node("work", |_: State, _| async { Ok::<_, NodeError>(()) })
        .edge(START, "split");
    compile(graph, None)
}

async fn run(graph: &CompiledGraph) -> Result<(), String> {
    let mut config = RunConfig::new("t");
    config.recursion_limit = 1_000_000;
    let input = Input::New(value::map([("untouched", Value::from("x".repeat(1_000)))]));
    graph.invoke(input, config).await.map(drop).map_err(|error| error.to_string())
}

/// The median cost of a unit, in microseconds, over runs of graphs that are made outside the clock.
async fn per(
    rounds: u32,
    units: u64,
    graph: impl Fn() -> Result<CompiledGraph, String>,
) -> Result<f64, String> {
    let mut costs = Vec::new();
    for _ in 0..=rounds {
        let graph = graph()?;
        let started = now();
        run(&graph).await?;
        costs.push(micros(started) / units as f64);
    }
    // The first one warms up.
    costs.remove(0);
    costs.sort_by(f64::total_cmp);
    Ok(costs[costs.len() / 2])
}

#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn now() -> Instant {
    Instant::now()
}

fn micros(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e6
}

/// Resident memory of this process, in bytes.
fn resident() -> Result<usize, String> {
    const PAGE: usize = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").map_err(|error| error.to_string())?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.map(|pages| pages * PAGE).ok_or_else(|| "/proc/self/statm: no figure".to_owned())
}
