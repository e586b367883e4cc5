//! Every recorded case, on every saver.
#![cfg(not(madsim))]

use std::path::Path;

use durasim_properties::conformance::{
    Case, StoreFactory, Verdict, check, doors, load_cases, memory_store, postgres_store,
    sqlite_store,
};
use serde_json::json;

#[test]
fn the_memory_saver_leaves_the_recorded_traces() {
    hold("memory", &*memory_store());
}

#[test]
fn the_sqlite_saver_leaves_the_recorded_traces() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    hold("sqlite", &*sqlite_store(folder.to_str().unwrap()));
}

#[test]
fn the_postgres_saver_leaves_the_recorded_traces() {
    let Some(cluster) = durasim_cluster::Cluster::for_test() else { return };
    hold("postgres", &*postgres_store(&cluster.database("conformance")).unwrap());
}

/// A trace that says something else must not pass, whatever it is about.
#[test]
fn an_altered_trace_is_told_apart() {
    let cases = load_cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/cases"));
    let cases = cases.unwrap();
    let case = cases.iter().find(|case| case.name == "fail_with_ok_sibling_async").unwrap();
    assert_eq!(run(case, &*memory_store()), Verdict::Pass);
    for (path, wrong) in [
        ("/effects/1", json!("ok:twice")),
        ("/ops/0/effects/0", json!("b:run")),
        ("/ops/0/events/1/data/n", json!(1)),
        ("/ops/0/error/class", json!("KeyError")),
        ("/ops/0/error/message", json!("bang")),
        ("/ops/1/state/next/0", json!("ok")),
        ("/ops/1/state/tasks/1/error", json!(null)),
        ("/ops/3/history/2/step", json!(7)),
        ("/threads/t1/checkpoints/2/parent", json!("c0")),
        ("/threads/t1/checkpoints/2/channel_versions/steps", json!(4)),
        ("/threads/t1/checkpoints/3/versions_seen/a/branch:to:a", json!(1)),
        ("/threads/t1/checkpoints/3/updated_channels", json!(null)),
        ("/threads/t1/checkpoints/2/writes/1/value", json!(["ok"])),
        ("/threads/t1/final/values/n", json!(1)),
    ] {
        let mut altered = case.clone();
        *altered.expected.pointer_mut(path).unwrap() = wrong;
        let verdict = run(&altered, &*memory_store());
        assert!(matches!(&verdict, Verdict::Differs(_)), "{path}: {verdict}");
    }
}

fn run(case: &Case, factory: &StoreFactory) -> Verdict {
    // Time stands still while anything can run, so that sleeps cost nothing and never race.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async { check(case, &doors(), factory).await })
}

/// Runs all cases of both folders, prints what became of them, and fails on any that does not pass.
fn hold(saver: &str, factory: &StoreFactory) {
    let (mut passed, mut failed) = (0, Vec::new());
    for folder in ["conformance/cases", "conformance/recorded"] {
        let cases = load_cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
        assert!(!cases.is_empty());
        for case in &cases {
            match run(case, factory) {
                Verdict::Pass => passed += 1,
                verdict @ Verdict::PassExcept { .. } => {
                    println!("{saver}: {}: {verdict}", case.name);
                    passed += 1;
                }
                verdict => failed.push(format!("{saver}: {}: {verdict}", case.name)),
            }
        }
    }
    println!("{saver}: {passed} pass, {} fail", failed.len());
    assert!(failed.is_empty(), "{} cases fail:\n{}", failed.len(), failed.join("\n"));
}
