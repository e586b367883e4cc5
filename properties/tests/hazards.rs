//! Each hazard that is an option: the same story breaks something with the hazard on, and nothing
//! with it off, over the same seeds.
#![cfg(madsim)]

use std::collections::BTreeMap;

use durasim_properties::scenario::{Scenario, builtin};
use durasim_properties::world::{RunPlan, run};
use durasim_properties::{Registry, Violation};

const SEEDS: u64 = 200;

/// How many of the seeds break each of these properties.
fn broken(scenario: &Scenario, names: &[String]) -> BTreeMap<String, u64> {
    let registry = Registry::builtin();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..SEEDS {
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

#[test]
fn a_hazard_shows_and_its_cure_holds() {
    let pairs: Vec<Vec<Scenario>> = builtin()
        .into_iter()
        .map(|(scenarios, _)| scenarios)
        .filter(|scenarios| scenarios.iter().any(|scenario| !scenario.options.is_empty()))
        .collect();
    assert_eq!(pairs.len(), 5, "hazards with a story of their own");
    for pair in pairs {
        let [hazard, cured] = pair.as_slice() else { panic!("a hazard and its cure") };
        let shown = &hazard.expect.demonstrates;
        for (property, seeds) in broken(hazard, shown) {
            assert!(seeds > 0, "{}: {property} holds in all {SEEDS} seeds", hazard.name);
        }
        let [mut on, mut off] = [hazard, cured].map(Clone::clone);
        (on.options, off.options) = Default::default();
        on.expect = off.expect.clone();
        on.name.clone_from(&off.name);
        assert_eq!(on, off, "only the option and what is expected differ");
        for (property, seeds) in broken(cured, &cured.expect.hold) {
            assert_eq!(seeds, 0, "{}: {property} breaks in {seeds} seeds", cured.name);
        }
    }
}
