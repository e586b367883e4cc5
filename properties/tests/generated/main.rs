//! Scenarios that nobody thought of: graphs, scripts, faults and settings are generated, each is run
//! with a generated seed, and the central property has to hold in all of them.
//!
//! The cases are the same in every run, so that a red one can be had again. `DURASIM_GENERATED=N`
//! asks for N other ones. A case that fails is made as small as it gets, written to
//! `snapshots/corpus/` and named together with the command that replays it; there it stays, and
//! [`every_case_of_the_corpus_holds`] runs it from then on.
#![cfg(madsim)]

mod corpus;
mod graphs;
mod judge;
mod marks;
mod scripts;
mod surroundings;
mod two_resumes;

use std::cell::RefCell;

use durasim_properties::{Registry, Scenario};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};

use marks::Marks;

/// Together well under a minute on one core, when built for release.
const GRAPHS: u32 = 12_000;
const PAYING: u32 = 3_000;

/// Any number does; another one gives other cases.
const FIXED: u64 = 1;

#[test]
fn generated_graphs_are_accounted_for() {
    let marks = check(
        "generated",
        GRAPHS,
        surroundings::scenario(),
        &["accounted", "kept", "told", "whole"],
    );
    marks.require(&marks::GRAPHS);
}

#[test]
fn a_key_from_the_booking_charges_once_whatever_happens() {
    let hold = ["charged-once", "accounted", "kept", "told", "whole"];
    let marks = check("paying", PAYING, surroundings::paying(), &hold);
    marks.require(&marks::PAYING);
}

#[test]
fn every_case_of_the_corpus_holds() {
    let registry = Registry::builtin();
    let cases = corpus::load();
    for (file, scenario) in &cases {
        let verdict = judge::judge(&registry, scenario, scenario.seed, &scenario.expect.hold);
        assert!(verdict.broken.is_empty(), "{}", judge::report(&verdict.broken, file, scenario));
    }
    println!("{} cases of the corpus were replayed", cases.len());
}

/// Runs generated scenarios until one does not hold, which is shrunk, kept and told.
fn check(
    kind: &str,
    cases: u32,
    scenarios: impl Strategy<Value = Scenario>,
    hold: &[&str],
) -> Marks {
    let hold: Vec<String> = hold.iter().map(|&name| name.to_owned()).collect();
    let asked = std::env::var("DURASIM_GENERATED").ok();
    let asked = asked.map(|n| n.parse().expect("DURASIM_GENERATED is a number of cases"));
    let config = Config {
        cases: asked.unwrap_or(cases),
        rng_seed: if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(FIXED) },
        // Cases are kept as scenario files, not as seeds of the generator.
        failure_persistence: None,
        max_shrink_iters: 5_000,
        ..Config::default()
    };
    let registry = Registry::builtin();
    let marks = RefCell::new(Marks::default());
    let found = TestRunner::new(config).run(&scenarios, |scenario| {
        let verdict = judge::judge(&registry, &scenario, scenario.seed, &hold);
        marks.borrow_mut().look(&verdict);
        match verdict.broken.first() {
            None => Ok(()),
            Some(broken) => Err(TestCaseError::fail(broken.clone())),
        }
    });
    let marks = marks.into_inner();
    match found {
        Ok(()) => println!("{} scenarios\n{marks}", marks.scenarios()),
        Err(TestError::Fail(_, scenario)) => {
            let broken = judge::judge(&registry, &scenario, scenario.seed, &hold).broken;
            let (file, scenario) = corpus::keep(kind, scenario, hold, &broken);
            panic!("{}", judge::report(&broken, &file, &scenario));
        }
        Err(TestError::Abort(reason)) => panic!("no scenarios: {reason}"),
    }
    marks
}
