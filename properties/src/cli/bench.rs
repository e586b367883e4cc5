//! `bench`: what a seed costs, and where.
//!
//! The layers are stacked: each row is the same three requests with one layer more, so that the
//! difference of two rows is that layer's part. All rows take turns in one run, medians over the
//! rounds are shown, and the first row is the floor that the others are divided by: figures of
//! different machines compare by these ratios, and by nothing else.

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use comfy_table::{LineStyle, Table, TableStyle};
use durasim_sim::{BoxFuture, RunOptions, World};
use serde_json::json;

use super::args::BenchArgs;
use super::pool;
use super::simulate::{now, own_binary};
use super::worker::Job;
use crate::registry::Registry;
use crate::scenario::{Client, Effects, Leave, Scenario, Shape, Step, Store};
use crate::world::{RunPlan, run};

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));
/// Streaming requests of a seed, each on a thread of its own.
const REQUESTS: usize = 3;
/// Seeds of one round, in each row.
const SEEDS: u64 = 100;

/// One row: a name, and what a seed of it took.
struct Layer {
    name: &'static str,
    /// What the difference to the row before is the cost of.
    part: &'static str,
    rounds: Vec<Duration>,
}

/// Always true: a bench finds nothing.
pub fn bench(registry: &Registry, args: &BenchArgs) -> Result<bool, String> {
    let layers = on_one_core(|| measured(registry, args.rounds));
    let costs: Vec<f64> = layers.iter().map(|layer| micros(median(&layer.rounds))).collect();
    let total = costs[costs.len() - 1];
    let rate = 1e6 / total;
    let (one, two) = (jobs_rate(1, args.rounds)?, jobs_rate(2, args.rounds)?);

    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(["a seed of", "median us", "of the floor", "this layer", "us", "share"]);
    for (i, layer) in layers.iter().enumerate() {
        let part = if i == 0 { costs[0] } else { costs[i] - costs[i - 1] };
        if args.json {
            say!(
                "{}",
                json!({
                    "layer": layer.part, "seed_of": layer.name, "median_us": round(costs[i]),
                    "of_floor": round(costs[i] / costs[0]), "part_us": round(part),
                    "share": round(part / total),
                })
            );
        }
        table.add_row([
            layer.name.to_owned(),
            format!("{:.0}", costs[i]),
            format!("{:.1}x", costs[i] / costs[0]),
            layer.part.to_owned(),
            format!("{part:.0}"),
            format!("{:.0} %", 100.0 * part / total),
        ]);
    }
    let scale = two / one;
    if args.json {
        say!(
            "{}",
            json!({
                "summary": "bench", "ok": true, "seeds_per_second": round(rate),
                "judged_jobs_1": round(one), "judged_jobs_2": round(two), "scale": round(scale),
            })
        );
    } else {
        say!("{table}\n");
        say!("One core, a fresh thread for each seed: {rate:.0} seeds a second.");
        say!(
            "In worker processes, judged: {one:.0} a second with one, {two:.0} with two ({scale:.2} \
             times)."
        );
    }
    Ok(true)
}

/// Runs a seed.
type Seed<'a> = Box<dyn Fn(u64) + 'a>;

/// Three requests with one layer more in each row. All rows take turns.
fn measured(registry: &Registry, rounds: u32) -> Vec<Layer> {
    let played = |shape, store, effects| -> Seed<'_> {
        let scenario = scenario(shape, store, effects);
        Box::new(move |seed| {
            let outcome = run(registry, &scenario, RunPlan { seed, ..RunPlan::default() });
            assert_eq!(outcome.effects.len(), 3 * REQUESTS, "a bench of nothing");
        })
    };
    let (bare, streamed) = (Shape::Direct, Shape::Inline);
    let rows: [(_, _, Seed<'_>); 6] = [
        ("an empty run", "floor", Box::new(empty)),
        ("four idle processes", "world", Box::new(idle)),
        ("three runs, no HTTP", "runtime", played(bare, Store::Memory, Effects::Log)),
        ("streamed over HTTP", "HTTP", played(streamed, Store::Memory, Effects::Log)),
        ("stored in SQLite", "SQLite", played(streamed, Store::Sqlite, Effects::Log)),
        ("paid for over HTTP", "provider", played(streamed, Store::Sqlite, Effects::Http)),
    ];
    let mut layers = rows.each_ref().map(|(name, part, _)| Layer { name, part, rounds: vec![] });
    rows.iter().for_each(|(_, _, seed)| seed(0));
    for round in 0..rounds {
        for ((_, _, seed), layer) in rows.iter().zip(&mut layers) {
            let started = now();
            let first = u64::from(round) * SEEDS;
            (first..first + SEEDS).for_each(seed);
            layer.rounds.push(started.elapsed() / SEEDS as u32);
        }
    }
    layers.into()
}

/// Without this a run and whoever waits for it may meet on two cores, and what is measured is how
/// memory moves from the one to the other.
fn on_one_core<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let on_core = || {
        // Threads that are started here stay here.
        let core = core_affinity::get_core_ids().and_then(|cores| cores.last().copied());
        core.map(core_affinity::set_for_current);
        work()
    };
    let done = thread::scope(|scope| scope.spawn(on_core).join());
    done.unwrap_or_else(|panic| resume_unwind(panic))
}

fn scenario(shape: Shape, store: Store, effects: Effects) -> Scenario {
    Scenario {
        name: "bench".to_owned(),
        graph: "pay-booking-key".to_owned(),
        shape,
        store,
        effects,
        clients: (1..=REQUESTS).map(client).collect(),
        ..Scenario::default()
    }
}

fn client(nth: usize) -> Client {
    let input = json!({ "steps": [], "booking": format!("b-{nth}") });
    Client {
        name: format!("client-{nth}"),
        thread: format!("trip-{nth}"),
        script: vec![Step::Send { input, leave: Leave::Never }],
    }
}

fn empty(seed: u64) {
    durasim_sim::run(seed, RunOptions::default(), |_| Box::pin(async {}));
}

fn idle(seed: u64) {
    let driver = |world: World| -> BoxFuture<'static, ()> {
        Box::pin(async move {
            for name in ["server-1", "client-1", "client-2", "client-3"] {
                world.process(name, name, |_| Box::pin(async {}));
            }
            world.sleep(Duration::from_secs(10)).await;
        })
    };
    durasim_sim::run(seed, RunOptions::default(), driver);
}

/// Judged seeds a second with so many worker processes: the median of the rounds.
fn jobs_rate(workers: usize, rounds: u32) -> Result<f64, String> {
    const BATCHES: usize = 40;
    let scenario = scenario(Shape::Inline, Store::Sqlite, Effects::Http);
    let binary = own_binary()?;
    let mut rates = Vec::new();
    for _ in 0..rounds.div_ceil(3) {
        let job = |id| Job { id, scenario: scenario.clone(), seeds: (0..20).collect() };
        let jobs = (0..BATCHES).map(job);
        let total = 20 * BATCHES;
        let started = now();
        pool::run(&binary, workers, jobs, drop)?;
        rates.push(total as f64 / started.elapsed().as_secs_f64());
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}

fn median(rounds: &[Duration]) -> Duration {
    let mut rounds = rounds.to_vec();
    rounds.sort();
    rounds[rounds.len() / 2]
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Two decimals, for JSON.
fn round(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}
