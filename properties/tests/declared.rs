//! A scenario that brings its graph along: it runs, is accounted for, and is refused in one line
//! when the graph makes no sense.
#![cfg(madsim)]

use durasim_properties::accounting::account;
use durasim_properties::scenario::from_json;
use durasim_properties::world::{RunPlan, run, try_compile};
use durasim_properties::{Registry, Scenario};
use serde_json::{Value as Json, json};

fn node(actions: Json) -> Json {
    json!({ "actions": actions })
}

/// Two steps of a loop that goes round twice.
fn good() -> Json {
    let lap = json!([
        { "do": "sleep", "ms": 100 },
        { "do": "effect", "label": "charge" },
        { "do": "write", "values": { "steps": { "$list_node": true }, "laps": { "$add": ["laps", 1] } } },
    ]);
    json!({
        "version": 1, "name": "own-graph", "graph": "laps",
        "declared": {
            "channels": { "steps": { "reducer": "append" }, "laps": { "reducer": "last_value" } },
            "nodes": { "plan": node(json!([])), "lap": node(lap) },
            "edges": [["START", "plan"], ["plan", "lap"]],
            "conditional_edges": [
                { "from": "lap", "channel": "laps", "table": { "1": "lap" }, "default": "END" },
            ],
        },
        "clients": [{
            "name": "alice", "thread": "t",
            "script": [{ "do": "send", "input": { "steps": [], "laps": 0 } }],
        }],
    })
}

/// The good scenario with one field of its graph set.
fn altered(pointer: &str, value: Json) -> String {
    let mut scenario = good();
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer has a slash");
    scenario["declared"].pointer_mut(parent).expect("the parent is there")[field] = value;
    scenario.to_string()
}

fn read(text: &str) -> Result<Scenario, String> {
    let registry = Registry::builtin();
    let scenario = from_json(text, "a file").map_err(|error| error.to_string())?;
    try_compile(&registry, &scenario).map(|()| scenario)
}

#[test]
fn it_runs_and_its_effects_are_on_record() {
    let scenario = read(&good().to_string()).expect("the scenario reads");
    let outcome = run(&Registry::builtin(), &scenario, RunPlan::default());
    assert_eq!(outcome.graph.transcript.as_deref(), Some("steps"));
    assert_eq!(outcome.transcript("t"), ["lap", "lap"]);
    let account = account(&outcome, "t");
    assert_eq!((account.recorded, account.violations), (2, vec![]));
    let labels: Vec<_> = outcome.executed("t").iter().map(|effect| &*effect.label).collect();
    assert_eq!(labels, ["charge", "charge"]);
}

#[test]
fn it_is_written_as_it_was_read() {
    let scenario = read(&good().to_string()).expect("the scenario reads");
    let text = serde_json::to_string(&scenario).expect("a scenario is plain data");
    assert_eq!(read(&text), Ok(scenario));
    let plain = serde_json::to_value(Scenario::default()).expect("a scenario is plain data");
    assert!(plain.get("declared").is_none(), "one that names its graph says no more");
}

/// Without every name of an effect's node, the channel is no transcript.
#[test]
fn steps_is_a_transcript_only_when_it_is_kept_as_one() {
    for (pointer, value) in [
        ("/channels/steps", json!({ "reducer": "last_value" })),
        ("/nodes/plan/actions", json!([{ "do": "effect", "label": "plan" }])),
        (
            "/nodes/plan/actions",
            json!([{ "do": "write", "values": { "steps": { "$list_node": true } } }]),
        ),
        ("/nodes/lap/actions/2/values/steps", json!(["lap", "lap"])),
    ] {
        let scenario = read(&altered(pointer, value)).expect("the scenario reads");
        let entry = Registry::builtin().graph_of(&scenario).expect("the graph is built");
        assert_eq!(entry.transcript, None, "{pointer}");
    }
}

#[test]
fn a_graph_that_makes_no_sense_is_refused_in_one_line() {
    let effect = json!({ "do": "effect", "label": "charge" });
    for (pointer, value, named) in [
        ("/channels/steps", json!({ "reducer": "max" }), "declared.channels.steps.reducer"),
        ("/nodes/lap/actions", json!([{ "do": "dance" }]), "declared.nodes.lap.actions[0]"),
        ("/nodes/lap/colour", json!("red"), "declared.nodes.lap.colour"),
        ("/nodes/plan/actions", json!([effect]), "declared.nodes.lap.actions[1].label"),
        (
            "/nodes/plan/actions",
            json!([{ "do": "if", "channel": "laps", "eq": 0, "then": [effect] }]),
            "declared.nodes.plan.actions[0]",
        ),
        (
            "/nodes/lap/subgraph",
            json!({ "channels": {}, "nodes": {} }),
            "declared.nodes.lap.subgraph",
        ),
        ("/nodes/lap/retry", json!({ "max_attempts": 2 }), "declared.nodes.lap.retry"),
        (
            "/nodes/plan/actions",
            json!([{ "do": "goto", "to": { "node": "lap", "arg": {} } }]),
            "declared.nodes.plan.actions: a Send",
        ),
        (
            "/conditional_edges/0/sends",
            json!({ "channel": "steps", "node": "lap", "arg_key": "step" }),
            "declared.conditional_edges: a Send",
        ),
        ("/conditional_edges/0/default", Json::Null, "declared: conditional edge out of \"lap\""),
        ("/edges", json!([["START", "lap"], ["lap", "nowhere"]]), "\"nowhere\""),
    ] {
        let problem = read(&altered(pointer, value)).expect_err(pointer);
        assert_eq!(problem.lines().count(), 1, "{problem}");
        assert!(problem.contains(named), "{pointer}: does not name {named:?}: {problem}");
    }
}

/// A graph that only the compiler can refuse, through the command line.
#[test]
fn the_command_line_refuses_it_too() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-declared.json");
    std::fs::write(&path, altered("/edges", json!([["START", "lap"], ["lap", "nowhere"]])))
        .expect("the folder for tests can be written");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_durasim"))
        .args(["simulate", "--scenario", path.to_str().expect("a path of plain text")])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.contains("declared: \"laps\" does not compile"), "{said}");
}
