//! Short interleavings to learn from, kept as snapshots in the folder `snapshots/`.
//!
//! The numbers of each are asserted here besides, from the tables that were measured on the real
//! stack, so that a snapshot cannot drift away from them by an unwatchful approval.
#![cfg(madsim)]

mod settings;
mod tale;

use durasim_properties::scenario::{Client, Delays, Fault, Leave, Moment, Scenario, Step, When};
use durasim_properties::world::{RunPlan, run};
use durasim_properties::{Outcome, Registry};
use durasim_runtime::{Durability, StreamMode};
use durasim_sim::Event;
use serde_json::json;

use settings::booking;
use tale::{forks, tell};

fn message(leave: Leave) -> Step {
    Step::Send { input: json!({ "steps": [] }), leave }
}

/// What shows in the trace for the first time, with this field.
fn moment(event: &str, field: &str, value: &str) -> Moment {
    let with = [(field.to_owned(), json!(value))].into_iter().collect();
    Moment { event: event.to_owned(), with, nth: 1 }
}

/// What the client gets to see of a run on its way.
fn sights(event: &Event) -> bool {
    event.name == "browser.sees"
}

fn nothing(_: &Event) -> bool {
    false
}

/// Runs the scenario and keeps its tale under `name`, with what to learn from it on top and without
/// what `skips` says.
fn keep(name: &str, lesson: &str, scenario: Scenario, skips: fn(&Event) -> bool) -> Outcome {
    let delays = Delays { network_ms: [1, 1], ..scenario.delays };
    let scenario = Scenario { delays, ..scenario };
    let outcome = run(&Registry::builtin(), &scenario, RunPlan::default());
    let text = format!("{lesson}\n\n{}", tell(&outcome, skips));
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
        nothing,
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
        nothing,
    );
    assert_eq!(outcome.glimpses[0].checkpoints, 0);
    assert_eq!(outcome.glimpses[0].executed, ["plan", "charge"]);
    assert_eq!((&*executed(&outcome), &*transcript(&outcome)), ("pcpcnf", "pcnf"));
}

/// By arithmetic: the checkpoint of the charge takes 100 ms, the process dies within one of them, so
/// the head is the step before, and from there c, n and f are executed.
#[test]
fn killed_between_effect_and_record() {
    let charged = moment("effect.executed", "effect", "charge");
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
        nothing,
    );
    assert_eq!((&*executed(&outcome), &*transcript(&outcome)), ("pccnf", "pcnf"));
    let charges: Vec<_> = outcome.effects.iter().filter(|e| &*e.label == "charge").collect();
    assert_eq!(charges[0].task, charges[1].task, "the same task, executed twice");
}

/// Measured: two requests at once after a client that left, async, two workers: 3 charges, 16
/// checkpoints, 1 fork, most charges in one checkpoint 2; when both load what was left, the head's
/// transcript is pcpcnf.
#[test]
fn forked() {
    let laptop =
        vec![message(Leave::AfterChunk(2)), Step::Wait { ms: 4_000 }, message(Leave::Never)];
    // While the laptop's first checkpoint is on its way.
    let phone = vec![
        Step::WaitFor { moment: moment("checkpoint.loaded", "request", "laptop.2") },
        Step::Wait { ms: 5 },
        message(Leave::Never),
    ];
    let client = |(name, script): (&str, _)| Client {
        name: name.to_owned(),
        thread: "trip-7".to_owned(),
        script,
    };
    let scenario = Scenario {
        workers: 2,
        delays: Delays { put_ms: [20, 20], ..Delays::default() },
        clients: [("laptop", laptop), ("phone", phone)].map(client).to_vec(),
        ..booking(vec![], vec![])
    };
    let outcome = keep(
        "forked",
        "The client of charged-twice comes back on two devices at once, and two workers serve them.\n\
         Both runs load the same checkpoint and build on it, and nobody objects: the thread forks, and\n\
         a step number names two checkpoints. The head, the newest of all, ends one branch and shows\n\
         two charges of three. One run at a time per thread would hide none, but charge as often.\n\
         (Told from the return on, with steps -1 to 2 stored, and without what the devices see.)",
        scenario,
        |event| event.at.as_secs() < 4 || sights(event),
    );
    assert_eq!(&*transcript(&outcome), "pcpcnf");
    let charges = |names: &str| names.matches('c').count();
    assert_eq!(charges(&executed(&outcome)), 3);
    let stored = &outcome.threads["trip-7"].checkpoints;
    assert_eq!((stored.len(), forks(&outcome, "trip-7")), (16, 1));
    let shown = stored.iter().map(|c| c.names("steps"));
    let most = shown.map(|names| charges(&initials(names.iter().map(String::as_str)))).max();
    assert_eq!(most, Some(2));
}

/// A client that leaves after the charge, looks 4.3 s after and sends another message; every node is
/// a task of its own.
fn eager(durability: Durability) -> Scenario {
    let script = vec![
        message(Leave::AfterChunk(2)),
        Step::Wait { ms: 4_300 },
        Step::Reload,
        message(Leave::Never),
    ];
    let stream_modes = vec![StreamMode::Updates, StreamMode::Custom];
    Scenario { durability, stream_modes, ..booking(script, vec![]) }
}

/// Measured: custom besides updates, async: 4.3 s after pcn executed, pc stored, notify next, 4
/// checkpoints; then a message: executed pcnpcnf, transcript pcpcnf.
#[test]
fn orphaned() {
    let outcome = keep(
        "orphaned",
        "With the stream mode custom on, each node runs as a task of its own. The client leaves, and a\n\
         disconnect that cancels by scope ends the run but not the node: notify runs on as an orphan,\n\
         takes effect a second and a half later, and nothing records it. To the thread it is still to\n\
         come, so it is executed again, and the state shows one of two. A run that ended may yet act.\n\
         (Told without what the client sees of the second run.)",
        eager(Durability::Async),
        |event| event.at.as_secs() > 4 && sights(event),
    );
    let left = &outcome.glimpses[0];
    assert_eq!(left.executed, ["plan", "charge", "notify"]);
    assert_eq!(left.state["values"], json!({ "steps": ["plan", "charge"] }));
    assert_eq!((&left.state["next"], left.checkpoints), (&json!(["notify"]), 4));
    assert_eq!((&*executed(&outcome), &*transcript(&outcome)), ("pcnpcnf", "pcpcnf"));
}

/// Measured: custom besides updates, sync: 4.3 s after pc executed, pc shown, nothing next, 3
/// checkpoints; then a message: executed pcpcnf, transcript ppcnf.
#[test]
fn lost_put() {
    let late = Delays { put_ms: [20, 20], ..Delays::default() };
    let outcome = keep(
        "lost-put",
        "With the stream mode custom on, the client has a chunk before the checkpoint of its step, even\n\
         at sync durability. It leaves while the run waits for the put, which is cancelled with the run.\n\
         What is left is a pending write: the state includes it and has nothing next, as if the thread\n\
         were finished. The next message drops it and charges again; the state shows one charge of two.\n\
         To keep it, continue without an input. (Told without what is seen of the second run.)",
        Scenario { delays: late, ..eager(Durability::Sync) },
        |event| event.at.as_secs() > 4 && sights(event),
    );
    let left = &outcome.glimpses[0];
    assert_eq!(left.executed, ["plan", "charge"]);
    assert_eq!(left.state["values"], json!({ "steps": ["plan", "charge"] }));
    assert_eq!((&left.state["next"], left.checkpoints), (&json!([]), 3));
    assert_eq!((&*executed(&outcome), &*transcript(&outcome)), ("pcpcnf", "ppcnf"));
}
