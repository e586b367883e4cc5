//! Three short interleavings to learn from, kept as snapshots in the folder `snapshots/`.
//!
//! The numbers of each are asserted here besides, from the tables that were measured on the real
//! stack, so that a snapshot cannot drift away from them by an unwatchful approval.
#![cfg(madsim)]

mod settings;
mod tale;

use durasim_properties::scenario::{Delays, Fault, Leave, Moment, Scenario, Step, When};
use durasim_properties::world::{RunPlan, run};
use durasim_properties::{Outcome, Registry};
use durasim_runtime::Durability;
use serde_json::json;

use settings::booking;
use tale::tell;

fn message(leave: Leave) -> Step {
    Step::Send { input: json!({ "steps": [] }), leave }
}

/// Runs the scenario and keeps its tale under `name`, with what to learn from it on top.
fn keep(name: &str, lesson: &str, scenario: Scenario) -> Outcome {
    let delays = Delays { network_ms: [1, 1], ..scenario.delays };
    let scenario = Scenario { delays, ..scenario };
    let outcome = run(&Registry::builtin(), &scenario, RunPlan::default());
    let text = format!("{lesson}\n\n{}", tell(&outcome));
    assert!(text.lines().count() < 40, "too long to learn from:\n{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "too wide:\n{text}");
    insta::with_settings!({
        snapshot_path => "../../snapshots",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
    outcome
}

fn executed(outcome: &Outcome) -> String {
    initials(outcome.executed("trip-7").iter().map(|effect| &*effect.label))
}

fn transcript(outcome: &Outcome) -> String {
    initials(outcome.transcript("trip-7").iter().map(String::as_str))
}

/// p plan, c charge, n notify, f finish.
fn initials<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.filter_map(|name| name.chars().next()).collect()
}

/// Measured: inline, async, then a message: executed pcpcnf, transcript pcpcnf.
#[test]
fn charged_twice() {
    let script =
        vec![message(Leave::AfterChunk(2)), Step::Wait { ms: 4_300 }, message(Leave::Never)];
    let outcome = keep(
        "charged-twice",
        "A client leaves once the charge has gone through, comes back and sends its message again.\n\
         A new input never resumes: what was unfinished is discarded, and the graph runs from its\n\
         start. The card is charged twice, and everything is in good order: both are on record.\n\
         To go on instead, continue the thread without an input.",
        booking(script, vec![]),
    );
    assert_eq!((&*executed(&outcome), &*transcript(&outcome)), ("pcpcnf", "pcpcnf"));
}

/// Measured: inline, exit, 4.3 s after: 0 checkpoints; then a message: executed pcpcnf, transcript
/// pcnf.
#[test]
fn charged_without_a_record() {
    let script = vec![
        message(Leave::AfterChunk(2)),
        Step::Wait { ms: 4_300 },
        Step::Reload,
        message(Leave::Never),
    ];
    let scenario = Scenario { durability: Durability::Exit, ..booking(script, vec![]) };
    let outcome = keep(
        "charged-without-a-record",
        "The same at exit durability, where a run is stored once, when it leaves. A disconnect that\n\
         cancels by scope keeps it from ever getting there: plan and charge were executed and no row\n\
         tells of it. The next message charges again, and the state shows one charge.",
        scenario,
    );
    assert_eq!(outcome.glimpses[0].checkpoints, 0);
    assert_eq!(outcome.glimpses[0].executed, ["plan", "charge"]);
    assert_eq!((&*executed(&outcome), &*transcript(&outcome)), ("pcpcnf", "pcnf"));
}

/// By arithmetic: the checkpoint of the charge takes 100 ms, the process dies within one of them, so
/// the head is the step before, and from there c, n and f are executed.
#[test]
fn killed_between_effect_and_record() {
    let charged = Moment {
        event: "effect.executed".to_owned(),
        with: json!({ "effect": "charge" }).as_object().cloned().unwrap_or_default(),
        nth: 1,
    };
    let kill = Fault::Kill {
        process: "server-1".to_owned(),
        when: When::Moment(charged),
        restart_after_ms: 500,
    };
    let script = vec![
        message(Leave::Never),
        Step::Wait { ms: 1_000 },
        Step::Continue { leave: Leave::Never },
    ];
    let late = Delays { put_ms: [100, 100], put_writes_ms: [100, 100], network_ms: [1, 1] };
    let scenario = Scenario { delays: late, ..booking(script, vec![kill]) };
    let outcome = keep(
        "killed-between-effect-and-record",
        "The process dies between the charge and the checkpoint that records it, and the client\n\
         continues the thread. The newest checkpoint is the one before the charge, so the charge is\n\
         executed again, and the state shows one. No order of writing closes this window: the charge\n\
         needs an idempotency key that is the same both times, such as its task id.",
        scenario,
    );
    assert_eq!((&*executed(&outcome), &*transcript(&outcome)), ("pccnf", "pcnf"));
    let charges: Vec<_> = outcome.effects.iter().filter(|e| &*e.label == "charge").collect();
    assert_eq!(charges[0].task, charges[1].task, "the same task, executed twice");
}
