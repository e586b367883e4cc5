//! What a PostgreSQL server costs: each durability against a bare loop that commits a row a step, and
//! against what Python does with it. All of them take turns, round by round.

use std::cell::Cell;
use std::sync::Arc;

use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::pregel::RunConfig;
use durasim_runtime::{Doors, Durability, Saver};
use tokio_postgres::NoTls;

use super::sqlite::{Beside, median};
use super::{Figure, LONG_RUN, LOOP, counting, micros, now, resident};

/// Steps a second of Python LangGraph 1.2.9 on loopback at sync, on a like machine.
const PYTHON: f64 = 330.0;

/// Figures, and a line on where and how they were measured.
pub(super) async fn bench(url: &str, rounds: u32) -> Result<(Vec<Figure>, String), String> {
    let server = connect(url).await?;
    let shown = ["server_version", "fsync", "synchronous_commit"];
    let mut settings = Vec::new();
    for name in shown {
        let row = server.query_one(&format!("SHOW {name}"), &[]).await.map_err(told)?;
        settings.push(format!("{name} {}", row.get::<_, String>(0)));
    }
    let about = format!("PostgreSQL: on loopback, {}.", settings.join(", "));

    let mut floor = Vec::new();
    let ways = [
        (Durability::Sync, false),
        (Durability::Sync, true),
        (Durability::Async, false),
        (Durability::Async, true),
        (Durability::Exit, false),
    ];
    let mut costs = vec![Vec::new(); ways.len()];
    let mut beside_large = Vec::new();
    let open = async |prepared_statements| {
        let options = PostgresOptions { prepared_statements, ..PostgresOptions::default() };
        PostgresSaver::open_with(url, &Doors::production(), options).await.map_err(told)
    };
    let savers = [open(false).await?, open(true).await?];
    let runs = Cell::new(0);
    for _ in 0..rounds.min(7) {
        floor.push(commit(&server).await?);
        // A thread of its own each time, and none is deleted: for a while, a server that writes where
        // many rows were deleted clears them away.
        let on_server = async |durability, prepared, limit, beside| {
            let thread = format!("t{}", runs.replace(runs.get() + 1));
            let saver = savers[usize::from(prepared)].clone();
            run(saver, &thread, durability, limit, beside).await
        };
        for ((durability, prepared), costs) in ways.into_iter().zip(&mut costs) {
            let cost = on_server(durability, prepared, LOOP, Beside::Little).await?;
            costs.push(cost / steps(LOOP));
        }
        // The large value is stored once, whatever the number of steps.
        let large = |limit| on_server(Durability::Sync, false, limit, Beside::Large);
        let once = large(LOOP).await?;
        beside_large.push((large(2 * LOOP).await? - once) / LOOP as f64);
    }
    let floor = median(floor);
    let of = |name, per_unit, aim| Figure {
        name,
        unit: "us a step",
        per_unit,
        of_floor: Some(per_unit / floor),
        aim,
    };
    let five_times = format!("{:.0}: 5 times Python", 1e6 / (5.0 * PYTHON));
    let [sync, sync_prepared, beside, beside_prepared, exit] =
        [0, 1, 2, 3, 4].map(|i| median(costs[i].clone()));
    let large = median(beside_large);
    // What stays in memory of each step of a long run, counted from its tenth part on.
    let long = async |limit| {
        run(savers[0].clone(), &format!("long{limit}"), Durability::Async, limit, Beside::Little)
            .await
    };
    long(LONG_RUN / 10).await?;
    let before = resident()?;
    long(LONG_RUN).await?;
    let grown = resident()?.saturating_sub(before) as f64;
    let figures = vec![
        of("PostgreSQL: one bare row and commit a step (the floor)", floor, "-".to_owned()),
        of("PostgreSQL: the loop at sync", sync, five_times.clone()),
        of("the same with prepared statements", sync_prepared, five_times.clone()),
        of("PostgreSQL: the loop at async", beside, five_times.clone()),
        of("the same with prepared statements", beside_prepared, five_times.clone()),
        of("PostgreSQL: the loop at exit", exit, five_times),
        of(
            "PostgreSQL: a step at sync beside 1 MiB that none touches",
            large,
            "as without".to_owned(),
        ),
        Figure {
            name: "PostgreSQL: kept of each of 100,000 steps at async",
            unit: "bytes a step",
            per_unit: grown / LONG_RUN as f64,
            of_floor: None,
            aim: "0".to_owned(),
        },
    ];
    Ok((figures, about))
}

/// Microseconds a step of bare commits, one row each.
async fn commit(server: &tokio_postgres::Client) -> Result<f64, String> {
    let setup = "DROP TABLE IF EXISTS bench_floor; CREATE TABLE bench_floor (n BIGINT PRIMARY KEY, text TEXT)";
    server.batch_execute(setup).await.map_err(told)?;
    let insert = server.prepare("INSERT INTO bench_floor VALUES ($1, $2)").await.map_err(told)?;
    let text = "x".repeat(1_000);
    let started = now();
    for n in 0..LOOP as i64 {
        server.execute(&insert, &[&n, &text]).await.map_err(told)?;
    }
    Ok(micros(started) / LOOP as f64)
}

/// The checkpoints of a loop: the input's, the start's, and one a node.
fn steps(limit: u64) -> f64 {
    (limit + 2) as f64
}

/// Microseconds of one run on a fresh thread.
async fn run(
    saver: Arc<dyn Saver>,
    thread: &str,
    durability: Durability,
    limit: u64,
    beside: Beside,
) -> Result<f64, String> {
    let graph = counting(Some(saver), limit)?;
    let mut config = RunConfig::new(thread).durability(durability);
    config.recursion_limit = 1_000_000;
    let input = beside.input();
    let started = now();
    graph.invoke(input, config).await.map_err(told)?;
    Ok(micros(started))
}

async fn connect(url: &str) -> Result<tokio_postgres::Client, String> {
    let config: tokio_postgres::Config = url.parse().map_err(told)?;
    let host = match config.get_hosts().first() {
        Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
        _ => return Err(format!("{url}: names no host")),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let stream = tokio::net::TcpStream::connect((host.as_str(), port)).await;
    let stream = stream.map_err(|error| format!("{host}:{port}: {error}"))?;
    stream.set_nodelay(true).map_err(told)?;
    let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(told)?;
    drop(tokio::spawn(connection));
    Ok(client)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
