//! Twenty thousand seeds in one OS process. A test of its own, as it measures the whole process.
#![cfg(madsim)]

mod settings;

use durasim_properties::Registry;
use durasim_properties::scenario::{Fault, Leave, Scenario, Step, When};
use durasim_properties::world::{RunPlan, run};
use serde_json::json;

use settings::{booking, over_http};

/// After these the allocator has what a run needs, and keeps it.
const WARM_UP: u64 = 1_000;
const SEEDS: u64 = 20_000;

/// A leak of 210 bytes a seed would pass it, and a task, a connection or an open database that
/// outlives its world takes more. What it allows for is the allocator's own wear.
const BOUND_KIB: u64 = 4 * 1024;

#[test]
fn twenty_thousand_worlds_leave_nothing_behind() {
    let registry = Registry::builtin();
    let settings = over_http();
    let play = |seed: u64| {
        let scenario = settings[seed as usize % settings.len()].apply(disturbed());
        let outcome = run(&registry, &scenario, RunPlan { seed, ..RunPlan::default() });
        assert_eq!(outcome.leaked, 0, "seed {seed}");
        assert_eq!(outcome.crash, None, "seed {seed}");
        outcome.effects.len()
    };
    let _: usize = (0..WARM_UP).map(play).sum();
    let before = resident_kib();
    let effects: usize = (WARM_UP..WARM_UP + SEEDS).map(play).sum();
    let grown = resident_kib().saturating_sub(before);
    println!("{SEEDS} seeds, {effects} effects: grew by {grown} KiB from {before} KiB");
    assert!(grown < BOUND_KIB, "grew by {grown} KiB from {before} KiB");
    assert!(effects as u64 > SEEDS, "hardly anything ran: {effects} effects");
}

/// Ends with as much going on as can be: a client leaves, the process dies, puts are late.
fn disturbed() -> Scenario {
    let kill = Fault::Kill {
        process: "server-1".to_owned(),
        when: When::WithinMs([0, 5_000]),
        restart_after_ms: 50,
    };
    let message = |leave| Step::Send { input: json!({ "steps": [] }), leave };
    let script = vec![
        message(Leave::WithinMs([0, 3_000])),
        Step::Wait { ms: 500 },
        message(Leave::Never),
        Step::Reload,
    ];
    booking(script, vec![kill])
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux's own account");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has a VmRSS");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number of KiB")
}
