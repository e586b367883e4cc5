//! The machinery itself: a run is a function of its scenario and seed, and ends whole.
//!
//! That two OS processes agree is checked by the command `check-determinism`.
#![cfg(madsim)]

mod settings;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use durasim_properties::scenario::{Fault, Leave, Scenario, Step, Store, When, builtin};
use durasim_properties::world::{RunPlan, Sabotage, run, run_beside};
use durasim_properties::{Outcome, Registry};
use durasim_sim::World;
use serde_json::json;

use settings::{booking, over_http};

/// The registered scenarios, each as it is written.
fn scenarios() -> impl Iterator<Item = Scenario> {
    builtin().into_iter().flat_map(|(scenarios, _)| scenarios)
}

fn play(scenario: &Scenario, seed: u64) -> Outcome {
    run(&Registry::builtin(), scenario, RunPlan { seed, ..RunPlan::default() })
}

/// Upwards and then downwards, so that what leaks from one seed to the next shows as a difference.
#[test]
fn the_same_seed_gives_the_same_trace() {
    for scenario in scenarios() {
        let up: Vec<Outcome> = (0..40).map(|seed| play(&scenario, seed)).collect();
        let down: Vec<Outcome> = (0..40).rev().map(|seed| play(&scenario, seed)).collect();
        for (once, again) in up.iter().zip(down.iter().rev()) {
            assert_eq!(once.trace, again.trace, "{} seed {}", scenario.name, once.seed);
            assert_eq!(once.hash, again.hash);
            assert_eq!(once.threads, again.threads);
        }
    }
}

#[test]
fn different_seeds_differ() {
    for scenario in scenarios() {
        let hashes: BTreeSet<u64> = (0..40).map(|seed| play(&scenario, seed).hash).collect();
        assert_eq!(hashes.len(), 40, "{}", scenario.name);
    }
}

/// What only the judge looks at leaves the world as it was.
#[test]
fn a_sabotage_that_never_strikes_changes_nothing() {
    let registry = Registry::builtin();
    for scenario in scenarios() {
        let sabotage = Sabotage::DropLoopPut { nth: 1_000 };
        let sabotaged = run(&registry, &scenario, RunPlan { seed: 3, sabotage });
        assert_eq!(sabotaged.hash, play(&scenario, 3).hash, "{}", scenario.name);
    }
}

/// Clients leave, processes die; once all is quiet, no socket is left open on either side.
#[test]
fn no_connection_is_left_open() {
    let registry = Registry::builtin();
    let mut busiest = 0;
    for (seed, setting) in (0..).zip(over_http()) {
        let kill = Fault::Kill {
            process: "server-1".to_owned(),
            when: When::WithinMs([0, 5_000]),
            restart_after_ms: 50,
        };
        let script = vec![
            Step::Send { input: json!({ "steps": [] }), leave: Leave::WithinMs([0, 3_000]) },
            Step::Wait { ms: 100 },
            Step::Send { input: json!({ "steps": [] }), leave: Leave::Never },
        ];
        let scenario = setting.apply(booking(script, vec![kill]));
        // The pool of a saver keeps its connections.
        if scenario.store == Store::Postgres {
            continue;
        }
        let counts: Arc<Mutex<Vec<usize>>> = Arc::default();
        let plan = RunPlan { seed, ..RunPlan::default() };
        let counted = counts.clone();
        let outcome = run_beside(&registry, &scenario, plan, async move |world: World| {
            let watched = world.clone();
            drop(world.spawn("count", async move {
                loop {
                    counted.lock().unwrap().push(watched.net().connections());
                    watched.sleep(Duration::from_millis(100)).await;
                }
            }));
        });
        assert_eq!(outcome.crash, None);
        let counts = counts.lock().unwrap();
        assert_eq!(counts.last(), Some(&0), "seed {seed} of {setting:?}");
        busiest = busiest.max(counts.iter().copied().max().unwrap_or(0));
    }
    assert!(busiest > 0, "nobody was ever connected");
}
