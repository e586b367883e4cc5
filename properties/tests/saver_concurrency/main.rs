//! Several tasks of two processes on one store at once: put, put_writes, get_tuple, list and
//! delete_thread overlap in an order that the seed chooses.
//!
//! No call fails, no row is lost, and a reader sees neither a checkpoint without its values nor a
//! part of what one put_writes stored. `DURASIM_CONCURRENCY=A..B` asks for those seeds.
#![cfg(madsim)]

mod boot;
mod crowd;

use std::sync::Arc;
use std::time::Duration;

use durasim_models::postgres::{Pooler, PoolerSettings};
use durasim_models::{Postgres, PostgresSettings};
use durasim_properties::world::doors_of;
use durasim_runtime::Saver;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_sim::{RunOptions, World, run};

use crowd::{Halves, crowd};

const FILE: &str = "checkpoints.sqlite";

/// A saver on the store of the world, for a process that has no other.
type Opens = fn(World, &'static str) -> durasim_sim::BoxFuture<'static, Arc<dyn Saver>>;

fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("DURASIM_CONCURRENCY").ok();
    let asked = asked.map(|asked| {
        let ends = asked.split_once("..").and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
        ends.expect("DURASIM_CONCURRENCY is a range such as 0..10000")
    });
    asked.unwrap_or(0..300)
}

/// What went wrong in which seed, and how often two calls were under way at once.
fn play(seeds: std::ops::Range<u64>, savers: &'static [&'static str], opens: Opens) -> Seen {
    let mut seen = Seen::default();
    for seed in seeds {
        let finished = run(seed, RunOptions::default(), move |world| {
            Box::pin(async move {
                let mut opened = Vec::new();
                for process in savers {
                    opened.push(opens(world.clone(), process).await);
                }
                crowd(&world, opened).await
            })
        });
        match finished.value {
            Ok(outcome) => {
                seen.overlaps += outcome.overlaps;
                seen.read += outcome.read;
                seen.problems.extend(outcome.problems.iter().map(|p| format!("seed {seed}: {p}")));
            }
            Err(crash) => seen.problems.push(format!("seed {seed}: {crash}")),
        }
    }
    seen
}

#[derive(Default)]
struct Seen {
    problems: Vec<String>,
    overlaps: u64,
    read: u64,
}

impl Seen {
    fn hold(&self) {
        let first: Vec<&str> = self.problems.iter().take(5).map(String::as_str).collect();
        let count = self.problems.len();
        assert!(first.is_empty(), "{count} problems, the first of them:\n{}", first.join("\n"));
        assert!(self.overlaps > 0 && self.read > 0, "nothing met: it proves nothing");
    }
}

fn in_file(world: World, process: &'static str) -> durasim_sim::BoxFuture<'static, Arc<dyn Saver>> {
    Box::pin(async move {
        let process = world.process(process, "box", |_| Box::pin(std::future::pending()));
        let opening = SqliteSaver::open(FILE, &doors_of(&process));
        let saver: Arc<dyn Saver> = opening.await.expect("the database opens");
        saver
    })
}

#[test]
fn one_saver_in_a_file() {
    play(seeds(), &["one"], in_file).hold();
}

#[test]
fn two_processes_on_one_file() {
    play(seeds(), &["one", "two"], in_file).hold();
}

/// On a database server; the first one starts it.
fn on_postgres(
    world: World,
    process: &'static str,
) -> durasim_sim::BoxFuture<'static, Arc<dyn Saver>> {
    Box::pin(async move {
        serve(&world);
        open(&world, process, "postgres", PostgresOptions::default()).await
    })
}

fn serve(world: &World) {
    if world.find(Postgres::NAME).is_none() {
        drop(Postgres::new(PostgresSettings::default()).serve(world));
    }
}

async fn open(
    world: &World,
    process: &'static str,
    server: &str,
    options: PostgresOptions,
) -> Arc<dyn Saver> {
    let process = world.process(process, process, |_| Box::pin(std::future::pending()));
    let url = format!("postgres://durasim@{server}/durasim");
    let opening = PostgresSaver::open_with(&url, &doors_of(&process), options);
    opening.await.expect("the database opens")
}

#[test]
fn one_saver_on_postgres() {
    play(seeds(), &["one"], on_postgres).hold();
}

#[test]
fn two_processes_on_postgres() {
    play(seeds(), &["one", "two"], on_postgres).hold();
}

#[test]
fn two_processes_that_prepare_statements() {
    play(seeds(), &["one", "two"], |world, process| {
        Box::pin(async move {
            serve(&world);
            open(&world, process, "postgres", prepared()).await
        })
    })
    .hold();
}

fn prepared() -> PostgresOptions {
    PostgresOptions { prepared_statements: true, ..PostgresOptions::default() }
}

/// Behind a pooler that lends a connection for a transaction: fewer of them than the savers would have.
async fn behind_a_pooler(
    world: World,
    process: &'static str,
    max_prepared_statements: usize,
    options: PostgresOptions,
) -> Arc<dyn Saver> {
    if world.find(Postgres::NAME).is_none() {
        serve(&world);
        let settings =
            PoolerSettings { pool_size: 4, max_prepared_statements, ..PoolerSettings::default() };
        drop(Pooler::serve(&world, settings));
    }
    open(&world, process, &format!("{}:{}", Pooler::NAME, Pooler::PORT), options).await
}

#[test]
fn two_processes_behind_a_pooler() {
    play(seeds(), &["one", "two"], |world, process| {
        Box::pin(behind_a_pooler(world, process, 0, PostgresOptions::default()))
    })
    .hold();
}

/// They notice that their sessions come and go, and that names are there already: whether or not the
/// pooler would know what to do, they go on without.
#[test]
fn two_processes_that_prepare_statements_behind_a_pooler() {
    play(seeds(), &["one", "two"], |world, process| {
        Box::pin(behind_a_pooler(world, process, 0, prepared()))
    })
    .hold();
    play(seeds(), &["one", "two"], |world, process| {
        Box::pin(behind_a_pooler(world, process, 200, prepared()))
    })
    .hold();
}

/// Somebody else's connection takes the write lock for a while, again and again, and now and then
/// has a reading transaction open.
#[test]
fn two_processes_beside_somebody_who_locks_the_file() {
    play(seeds(), &["one", "two"], |world, process| {
        Box::pin(async move {
            let saver = in_file(world.clone(), process).await;
            if process == "one" {
                drop(world.spawn("locker", lock_now_and_then(world.clone())));
            }
            saver
        })
    })
    .hold();
}

async fn lock_now_and_then(world: World) {
    let process = world.process("locker", "box", |_| Box::pin(std::future::pending()));
    let chance = world.chance().stream("locker", "");
    let connection = process.open_sqlite(FILE).expect("the file opens");
    for _ in 0..8 {
        world.sleep(Duration::from_micros(chance.below(4_000))).await;
        let begin = match chance.ratio(1, 3) {
            true => "BEGIN; SELECT count(*) FROM checkpoints",
            false => "BEGIN IMMEDIATE",
        };
        if connection.execute_batch(begin).is_ok() {
            world.sleep(Duration::from_micros(chance.below(20_000))).await;
            connection.execute_batch("COMMIT").expect("a transaction of its own");
        }
    }
}

/// A saver that stores the rows of a put_writes in two parts, or forgets one now and then.
#[test]
fn halves_and_losses_are_noticed() {
    let broken: [(Opens, &str); 2] = [
        (
            |world, process| {
                Box::pin(async move {
                    let inner = in_file(world.clone(), process).await;
                    let saver: Arc<dyn Saver> = Arc::new(Halves { inner, world, forgets: false });
                    saver
                })
            },
            "rows of",
        ),
        (
            |world, process| {
                Box::pin(async move {
                    let inner = in_file(world.clone(), process).await;
                    let saver: Arc<dyn Saver> = Arc::new(Halves { inner, world, forgets: true });
                    saver
                })
            },
            "is lost",
        ),
    ];
    for (opens, evidence) in broken {
        let seen = play(0..20, &["one"], opens);
        assert!(seen.problems.iter().any(|p| p.contains(evidence)), "{:?}", seen.problems.first());
    }
}
