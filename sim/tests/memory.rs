//! Thousands of runs in one OS process leave its memory flat.
#![cfg(madsim)]

mod common;

use std::time::Duration;

use durasim_sim::{RunOptions, run};

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Ends with everything still going on: requests, timers, a paused process, an open transaction.
fn unfinished(seed: u64) {
    let finished = run(seed, RunOptions::default(), |world| {
        Box::pin(async move {
            let ms = Duration::from_millis(1);
            world.process("server", "box", common::server(1000, 2 * ms));
            let paused = world.process("paused", "box", |me| {
                Box::pin(async move {
                    let db = me.open_sqlite("other.sqlite").unwrap();
                    db.execute_batch("create table t (x); begin; insert into t values (1)")
                        .unwrap();
                    std::future::pending::<()>().await;
                })
            });
            for i in 0..3 {
                let client = world.process(&format!("client-{i}"), "out", |_| Box::pin(async {}));
                client.spawn("main", common::get(client.clone(), format!("/{i}"), 500));
                // Two that know each other: a cycle through captured handles.
                world.spawn("keeper", async move {
                    let _client = client;
                    std::future::pending::<()>().await
                });
            }
            world.sleep(20 * ms).await;
            paused.pause();
        })
    });
    assert_eq!(finished.leaked_tasks, 0);
    assert_eq!(finished.value, Ok(()));
}

#[test]
fn two_thousand_runs_leave_memory_flat() {
    (0..300).for_each(unfinished);
    let before = resident_kib();
    (300..2300).for_each(unfinished);
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 4 * 1024, "grew by {grown} KiB");
    println!("grew by {grown} KiB");
}
