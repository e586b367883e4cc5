//! The central property over thousands of seeds: whenever a client leaves, whenever the process
//! dies, however late the store is, every executed effect lies on one edge of the checkpoint tree or
//! is explained.
//!
//! A sweep in which nothing interesting happened proves nothing. Each one therefore names the
//! situations that must have come up (see [`marks`]), and fails when one did not.
#![cfg(madsim)]

mod marks;
mod settings;

use std::collections::BTreeMap;

use durasim_properties::accounting::account;
use durasim_properties::scenario::{Fault, Leave, Scenario, Step, When};
use durasim_properties::world::{RunPlan, run};
use durasim_properties::{Outcome, Registry};
use serde_json::json;

use marks::Marks;
use settings::{approval, booking, in_process, over_http};

/// Per test; they go round the settings.
const SEEDS: u64 = 5_000;

/// How many broken seeds a failing test shows.
const SHOWN: usize = 5;

/// Longer than the slowest undisturbed run: 2.6 s of nodes, and at sync durability six late puts.
const ANY_MOMENT: [u64; 2] = [0, 5_000];

/// From "while the old run is still being wound up" to "when all is quiet".
const PAUSES: [u64; 4] = [0, 30, 700, 6_000];

#[test]
fn a_client_leaves_at_any_moment_and_comes_back() {
    let scenario = |seed: u64, next: Step| {
        let pause = PAUSES[seed as usize % PAUSES.len()];
        booking(vec![message(Leave::WithinMs(ANY_MOMENT)), Step::Wait { ms: pause }, next], vec![])
    };
    let settings = [over_http(), in_process()].concat();
    let marks = sweep(settings.len(), |seed| {
        let next = next_step(seed);
        settings[seed as usize % settings.len()].apply(scenario(seed / 7, next))
    });
    marks.require(&[
        "the client left and the run with it",
        "a put was in flight when the client left",
        "a put was cancelled",
        "a finished task's pending write was discarded",
        "an orphan's effect",
        "exit: effects, and nothing stored",
        "an effect happened twice",
        "explained: run cancelled",
        "explained: discarded by a new input",
        "explained: ran on as an orphan",
        "explained: put lost",
    ]);
}

#[test]
fn the_process_dies_at_any_moment_and_the_client_comes_back() {
    let scenario = |seed: u64, next: Step| {
        let kill = kill(seed, When::WithinMs(ANY_MOMENT));
        booking(vec![message(Leave::Never), Step::Wait { ms: 5_000 }, next], vec![kill])
    };
    let settings = over_http();
    let marks = sweep(settings.len(), |seed| {
        let next = next_step(seed);
        settings[seed as usize % settings.len()].apply(scenario(seed / 7, next))
    });
    marks.require(&[
        "a kill between an effect and its record",
        "a kill with a put in flight",
        "a stream broke",
        "an effect happened twice",
        "explained: process killed",
    ]);
}

/// The client leaves, and while the run is being wound up, or the next one runs, the process dies.
#[test]
fn both_at_any_moment() {
    let scenario = |seed: u64, next: Step| {
        let pause = PAUSES[seed as usize % PAUSES.len()];
        let script = vec![
            message(Leave::WithinMs(ANY_MOMENT)),
            Step::Wait { ms: pause },
            next,
            Step::Wait { ms: 5_000 },
            Step::Continue { leave: Leave::Never },
        ];
        booking(script, vec![kill(seed, When::WithinMs([0, 9_000]))])
    };
    let settings = over_http();
    let marks = sweep(settings.len(), |seed| {
        let next = next_step(seed);
        settings[seed as usize % settings.len()].apply(scenario(seed / 7, next))
    });
    marks.require(&[
        "the client left and the run with it",
        "a kill between an effect and its record",
        "an orphan died with its process",
        "explained: process killed",
        "explained: run cancelled",
        "explained: discarded by a new input",
    ]);
}

/// Two notifications at once: nodes that run beside each other are tasks of their own in every mode,
/// one may be done when the other is cut off, and the next run takes the finished one over.
#[test]
fn siblings_are_cut_off_one_by_one() {
    let scenario = |seed: u64, next: Step| {
        let pause = PAUSES[seed as usize % PAUSES.len()];
        let faults = match seed % 2 {
            0 => vec![],
            _ => vec![kill(seed, When::WithinMs([0, 9_000]))],
        };
        let script = vec![message(Leave::WithinMs(ANY_MOMENT)), Step::Wait { ms: pause }, next];
        Scenario { graph: "fan".to_owned(), ..booking(script, faults) }
    };
    let settings = over_http();
    let marks = sweep(settings.len(), |seed| {
        let next = next_step(seed);
        settings[seed as usize % settings.len()].apply(scenario(seed / 7, next))
    });
    marks.require(&[
        "the client left and the run with it",
        "a kill between an effect and its record",
        "a finished task's pending write was discarded",
        "an orphan's effect",
        "an effect happened twice",
        "explained: ran on as an orphan",
        "explained: process killed",
    ]);
}

/// A full disk now and then: one put or one put_writes of the thread fails, and the client leaves
/// at any moment besides.
#[test]
fn the_store_fails_now_and_then() {
    let scenario = |seed: u64, next: Step| {
        let nth = 1 + seed % 9;
        let fault = match seed % 2 {
            0 => Fault::FailPut { nth },
            _ => Fault::FailPutWrites { nth },
        };
        let leave = match seed % 3 {
            0 => Leave::WithinMs(ANY_MOMENT),
            _ => Leave::Never,
        };
        booking(vec![message(leave), Step::Wait { ms: 2_000 }, next], vec![fault])
    };
    let settings = [over_http(), in_process()].concat();
    let marks = sweep(settings.len(), |seed| {
        let next = next_step(seed);
        settings[seed as usize % settings.len()].apply(scenario(seed / 7, next))
    });
    marks.require(&[
        "a put failed",
        "a put_writes failed",
        "a checkpoint hangs on one that was never stored",
        "the client was told of a failure",
        "explained: put lost",
    ]);
}

/// The approval graph has an effect in front of its question, which runs again with the answer.
#[test]
fn a_client_leaves_a_question_open_and_answers_it_later() {
    let scenario = |seed: u64| {
        let input = json!({ "request_id": "r-1" });
        let script = vec![
            Step::Send { input: input.clone(), leave: Leave::WithinMs([0, 400]) },
            Step::Wait { ms: PAUSES[seed as usize % PAUSES.len()] },
            match seed % 5 {
                0 => Step::Send { input, leave: Leave::Never },
                1 => Step::Continue { leave: Leave::Never },
                _ => Step::Answer { value: json!(true), leave: Leave::WithinMs([0, 2_000]) },
            },
            Step::Wait { ms: 2_000 },
            Step::Answer { value: json!(true), leave: Leave::Never },
        ];
        let faults = match seed % 2 {
            0 => vec![],
            _ => vec![kill(seed, When::WithinMs([0, 3_000]))],
        };
        approval(script, faults)
    };
    let settings = over_http();
    let marks = sweep(settings.len(), |seed| {
        settings[seed as usize % settings.len()].apply(scenario(seed / 7))
    });
    marks.require(&[
        "the client left and the run with it",
        "a question was answered",
        "a kill between an effect and its record",
        "an effect happened twice",
        "explained: asked, ran again",
        "explained: process killed",
    ]);
}

/// What the equation says where nothing goes wrong; the numbers are the graph's own.
#[test]
fn where_nothing_goes_wrong_all_four_effects_are_recorded() {
    let registry = Registry::builtin();
    for (seed, setting) in (0..).zip([over_http(), in_process()].concat()) {
        let scenario = setting.apply(booking(vec![message(Leave::Never)], vec![]));
        let outcome = run(&registry, &scenario, RunPlan { seed, ..RunPlan::default() });
        let account = account(&outcome, "trip-7");
        assert_eq!((account.recorded, account.explained), (4, BTreeMap::new()), "{setting:?}");
        assert_eq!(outcome.transcript("trip-7"), ["plan", "charge", "notify", "finish"]);
    }
}

fn message(leave: Leave) -> Step {
    Step::Send { input: json!({ "steps": [] }), leave }
}

fn next_step(seed: u64) -> Step {
    // Out of step with the settings, so that each meets both.
    match (seed / 28) % 2 {
        0 => message(Leave::Never),
        _ => Step::Continue { leave: Leave::Never },
    }
}

fn kill(seed: u64, when: When) -> Fault {
    // Sometimes the client comes back while the process is still down.
    let restart_after_ms = [1, 200, 6_000][seed as usize % 3];
    Fault::Kill { process: "server-1".to_owned(), when, restart_after_ms }
}

/// Runs a scenario for every seed, demands that everything is accounted for, and collects what came
/// up on the way.
fn sweep(settings: usize, scenario: impl Fn(u64) -> Scenario) -> Marks {
    let registry = Registry::builtin();
    let mut marks = Marks::default();
    let mut broken = Vec::new();
    for seed in 0..SEEDS {
        let scenario = scenario(seed);
        let outcome = run(&registry, &scenario, RunPlan { seed, ..RunPlan::default() });
        let account = account(&outcome, "trip-7");
        marks.look(&outcome, &account);
        let properties =
            ["accounted", "kept", "told", "whole"].map(|name| registry.find_property(name));
        let violations = properties.iter().flatten().flat_map(|property| property.check(&outcome));
        broken.extend(violations.map(|violation| (story(&outcome), violation.evidence)));
    }
    let first: Vec<String> =
        broken.iter().take(SHOWN).map(|(story, evidence)| format!("{evidence}\n{story}")).collect();
    assert!(
        broken.is_empty(),
        "{} violations in {SEEDS} seeds over {settings} settings:\n{}\n{marks}",
        broken.len(),
        first.join("\n"),
    );
    println!("{SEEDS} seeds over {settings} settings\n{marks}");
    marks
}

/// Everything that brings this run back, and its whole trace.
fn story(outcome: &Outcome) -> String {
    let scenario = serde_json::to_string(&outcome.scenario).expect("a scenario is plain data");
    let lines = outcome.trace.iter().map(|event| format!("  {event}\n"));
    format!("seed {} of {scenario}\n{}", outcome.seed, lines.collect::<String>())
}
