//! Two requests at once, counted with two logs.
//!
//! What must show was measured on the real stack (the concurrency table): the truth is three charges
//! in every trial; an append that seeks and then writes, under sleeps that wake on a common tick,
//! shows two charges in some trials and fewer plans than charges in some; an atomic append never
//! loses a line.
#![cfg(madsim)]

use durasim_properties::Registry;
use durasim_properties::world::{RunPlan, run};

const THREAD: &str = "trip-7";

fn count(names: &[String], wanted: &str) -> usize {
    names.iter().filter(|name| *name == wanted).count()
}

/// Charges, and plans, that the log of each seed shows.
fn shown(scenario: &str, seeds: std::ops::Range<u64>) -> Vec<(usize, usize)> {
    let registry = Registry::builtin();
    let scenario = registry.find_scenario(scenario).expect("a scenario of this name");
    let seen = seeds.map(|seed| {
        let outcome = run(&registry, scenario, RunPlan { seed, ..RunPlan::default() });
        let executed: Vec<String> =
            outcome.executed(THREAD).iter().map(|effect| effect.label.to_string()).collect();
        assert_eq!(count(&executed, "charge"), 3, "seed {seed}: the truth");
        assert_eq!(count(&executed, "plan"), 3, "seed {seed}: the truth");
        let logged = &outcome.logged[THREAD];
        (count(logged, "charge"), count(logged, "plan"))
    });
    seen.collect()
}

#[test]
fn an_atomic_log_shows_the_truth() {
    assert!(shown("two-at-once", 0..300).iter().all(|seen| *seen == (3, 3)));
}

#[test]
fn a_leaky_log_shows_an_illusion_in_some_seeds() {
    let seen = shown("leaky-log", 0..300);
    let two_charges = seen.iter().filter(|(charges, _)| *charges == 2).count();
    let fewer_plans = seen.iter().filter(|(charges, plans)| plans < charges).count();
    let truth = seen.iter().filter(|seen| **seen == (3, 3)).count();
    println!(
        "of 300: {two_charges} show two charges, {fewer_plans} fewer plans, {truth} the truth"
    );
    assert!(two_charges > 0 && fewer_plans > 0 && truth > 0);
    // Nothing is ever made up.
    assert!(seen.iter().all(|(charges, plans)| *charges <= 3 && *plans <= 3));
}
