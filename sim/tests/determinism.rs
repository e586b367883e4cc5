//! The same seed gives the same trace, whatever else the OS process does.
#![cfg(madsim)]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use durasim_sim::{Finished, Labels, LinkSpec, RunOptions, World, run};

const MS: Duration = Duration::from_millis(1);

/// Several clients, some of whom leave; a server that is killed, or loses power, and comes back.
async fn scenario(world: World) -> Vec<Result<usize, String>> {
    world.net().set_default_link(LinkSpec::between(MS / 2, 5 * MS));
    let server = world.process("server", "box", common::server(5, 2 * MS));
    let mut clients = Vec::new();
    for i in 0..4 {
        let client = world.process(&format!("client-{i}"), "outside", |_| Box::pin(async {}));
        let (me, clock) = (client.clone(), world.clone());
        clients.push(client.spawn("main", async move {
            let chance = clock.chance().stream("client", me.name());
            clock.sleep(chance.duration(Duration::ZERO, 20 * MS)).await;
            let limit = chance.between(1, 8) as usize;
            common::get(me, format!("/{i}"), limit).await
        }));
    }
    let chance = world.chance().stream("fault", "server");
    world.sleep(chance.duration(Duration::ZERO, 40 * MS)).await;
    match chance.below(4) {
        0 => server.kill(),
        1 => server.power_cut(),
        2 => world.net().partition("client-1", "server"),
        _ => server.pause(),
    }
    world.sleep(10 * MS).await;
    match server.is_alive() {
        true => server.resume(),
        false => server.restart(),
    }
    world.net().heal("client-1", "server");
    let mut results = Vec::new();
    for client in clients {
        tokio::select! {
            biased;
            result = client => results.push(result.unwrap()),
            () = world.sleep(Duration::from_secs(1)) => results.push(Err("gave up".to_owned())),
        }
    }
    let rows = world
        .inspect_sqlite("box", "app.sqlite")
        .and_then(|db| db.query_row("select count(*) from t", [], |row| row.get::<_, i64>(0)));
    let rows = rows.map_or_else(|e| e.to_string(), |n| n.to_string());
    let disk = world.disk("box");
    let fields = vec![("rows", rows.into()), ("writes", disk.write_count().into())];
    world.note("world", Labels::none(), "test.rows", fields);
    results
}

fn simulate(seed: u64) -> Finished<Vec<Result<usize, String>>> {
    let options = RunOptions { record_tape: true, ..RunOptions::default() };
    run(seed, options, |world| Box::pin(scenario(world)))
}

fn compare(a: &Finished<Vec<Result<usize, String>>>, b: &Finished<Vec<Result<usize, String>>>) {
    for (one, other) in a.trace.iter().zip(&b.trace) {
        assert_eq!(one, other, "seed {}: the first difference", a.seed);
    }
    assert_eq!(a.hash, b.hash);
    assert_eq!(a.tape, b.tape);
    assert_eq!(a.virtual_time, b.virtual_time);
    assert_eq!(a.polls, b.polls);
    assert_eq!(a.value, b.value);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..100 {
        let first = simulate(seed);
        assert!(first.value.is_ok(), "seed {seed}: {:?}", first.value);
        compare(&first, &simulate(seed));
    }
}

#[test]
fn different_seeds_differ() {
    let hashes: BTreeSet<u64> = (0..100).map(|seed| simulate(seed).hash).collect();
    assert_eq!(hashes.len(), 100);
}

#[test]
#[allow(clippy::disallowed_methods)] // Outside the simulation.
fn threads_do_not_disturb_each_other() {
    let all = || (0..100).map(simulate).collect::<Vec<_>>();
    let (one, two) = std::thread::scope(|scope| {
        let (one, two) = (scope.spawn(all), scope.spawn(all));
        (one.join().unwrap(), two.join().unwrap())
    });
    one.iter().zip(&two).for_each(|(a, b)| compare(a, b));
}

#[test]
fn faults_have_effects() {
    // Otherwise the tests above prove little.
    let runs: Vec<_> = (0..100).map(simulate).collect();
    for name in ["process.killed", "process.power_cut", "process.paused", "net.refused"] {
        let seen = runs.iter().filter(|r| r.trace.iter().any(|e| e.name == name)).count();
        assert!(seen > 3, "{name} in {seen} of 100 runs");
    }
    let failed = runs.iter().filter(|r| r.value.as_ref().unwrap().iter().any(Result::is_err));
    assert!(failed.count() > 20);
}

/// Prints hashes when asked to by the test below, in an OS process of its own.
#[test]
fn print_hashes() {
    if std::env::var_os("DURASIM_PRINT_HASHES").is_some() {
        (0..50).for_each(|seed| println!("hash {:016x}", simulate(seed).hash));
    }
}

#[test]
fn another_os_process_agrees() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "print_hashes", "--nocapture"])
        .env("DURASIM_PRINT_HASHES", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("hash ")).collect();
    let ours: Vec<String> = (0..50).map(|seed| format!("{:016x}", simulate(seed).hash)).collect();
    assert_eq!(theirs, ours);
}
