//! Each hazard that is an option: the same story breaks something with the hazard on, and nothing
//! with it off, over the same seeds.
#![cfg(madsim)]

use std::collections::BTreeMap;

use durasim_properties::scenario::{Scenario, Store, builtin};
use durasim_properties::world::{RunPlan, run};
use durasim_properties::{Registry, Violation};

/// How many of so many seeds break each of these properties.
fn broken(scenario: &Scenario, names: &[String], seeds: u64) -> BTreeMap<String, u64> {
    let registry = Registry::builtin();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..seeds {
        let outcome = run(&registry, scenario, RunPlan { seed, ..RunPlan::default() });
        let properties =
            names.iter().map(|name| registry.find_property(name).expect("it is known"));
        let found: Vec<Violation> = properties.flat_map(|p| p.check(&outcome)).collect();
        for name in names {
            let is_broken = found.iter().any(|violation| violation.property == *name);
            *counts.entry(name.clone()).or_default() += u64::from(is_broken);
        }
    }
    counts
}

/// A hazard and its cure, which differ in nothing but the option and what is expected.
fn pairs() -> Vec<[Scenario; 2]> {
    let with_options = |scenarios: &Vec<Scenario>| scenarios.iter().any(|s| !s.options.is_empty());
    let files = builtin().into_iter().map(|(scenarios, _)| scenarios).filter(with_options);
    let pairs: Vec<[Scenario; 2]> =
        files.map(|file| file.try_into().expect("a hazard and its cure")).collect();
    for [hazard, cured] in &pairs {
        let [mut on, mut off] = [hazard, cured].map(Clone::clone);
        (on.options, off.options) = Default::default();
        on.expect = off.expect.clone();
        on.name.clone_from(&off.name);
        assert_eq!(on, off, "only the option and what is expected differ");
    }
    assert_eq!(pairs.len(), 5, "hazards with a story of their own");
    pairs
}

fn show_and_cure(store: Store, seeds: u64) {
    for pair in pairs() {
        let [hazard, cured] = pair.map(|scenario| Scenario { store, ..scenario });
        for (property, found) in broken(&hazard, &hazard.expect.demonstrates, seeds) {
            assert!(found > 0, "{}: {property} holds in all {seeds} seeds", hazard.name);
        }
        for (property, found) in broken(&cured, &cured.expect.hold, seeds) {
            assert_eq!(found, 0, "{}: {property} breaks in {found} seeds", cured.name);
        }
    }
}

#[test]
fn hazards_show_and_their_cures_hold_in_a_file() {
    show_and_cure(Store::Sqlite, 200);
}

#[test]
fn hazards_show_and_their_cures_hold_on_postgres() {
    show_and_cure(Store::Postgres, 60);
}
