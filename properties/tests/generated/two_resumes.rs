//! What generated scripts leave out: two resumes of one checkpoint.
//!
//! A thread's run is cut off while one of two siblings has finished and the other has not. The
//! finished one left its result as a pending write. Whoever resumes takes it over instead of
//! executing the node again, by the task id, and task ids come from the checkpoint: so two who
//! resume at once both take it over. Each makes a checkpoint that records the node, and the tree
//! shows two of what happened once. Counting over its edges counts too much.

use durasim_properties::scenario::{Client, Leave, Scenario, Step};
use durasim_properties::{Outcome, Registry};
use durasim_runtime::Profile;
use serde_json::json;

use crate::judge::judge;

/// Two siblings, of which one is done at once.
fn graph() -> serde_json::Value {
    let node = |name: &str, ms: u64| {
        json!({ "actions": [
            { "do": "sleep", "ms": ms },
            { "do": "effect", "label": name },
            { "do": "write", "values": { "steps": { "$list_node": true } } },
        ] })
    };
    json!({
        "channels": { "steps": { "reducer": "append" } },
        "nodes": { "quick": node("quick", 10), "slow": node("slow", 1_000) },
        "edges": [["START", "quick"], ["START", "slow"], ["quick", "END"], ["slow", "END"]],
    })
}

/// The first client leaves in between; then so many continue at the same moment.
fn scenario(profile: Profile, resumes: usize) -> Scenario {
    let client = |i: usize| {
        let first = Step::Send { input: json!({ "steps": [] }), leave: Leave::AfterMs(300) };
        let wait = Step::Wait { ms: if i == 0 { 2_700 } else { 3_000 } };
        let mut script = vec![wait, Step::Continue { leave: Leave::Never }];
        if i == 0 {
            script.insert(0, first);
        }
        Client { name: format!("client-{i}"), thread: "t".to_owned(), script }
    };
    Scenario {
        name: "two-resumes".to_owned(),
        graph: "siblings".to_owned(),
        declared: Some(serde_json::from_value(graph()).expect("a graph that reads")),
        profile,
        clients: (0..resumes).map(client).collect(),
        ..Scenario::default()
    }
}

/// How often the head, and every edge of the tree together, show `quick`.
fn shown(outcome: &Outcome) -> (usize, usize) {
    let quick = |names: &[String]| names.iter().filter(|name| *name == "quick").count();
    let rows = &outcome.threads["t"].checkpoints;
    let names = |id: &str| outcome.threads["t"].find(id).map(|row| row.names("steps"));
    let edges = rows.iter().map(|row| {
        let before = row.parent.as_deref().and_then(names).unwrap_or_default();
        quick(&row.names("steps")) - quick(&before)
    });
    (quick(&outcome.transcript("t")), edges.sum())
}

#[test]
fn two_resumes_at_once_record_one_execution_twice() {
    let hold = ["accounted".to_owned()];
    for profile in [Profile::Safe, Profile::Faithful] {
        for (resumes, edges) in [(1, 1), (2, 2)] {
            let scenario = scenario(profile, resumes);
            let verdict = judge(&Registry::builtin(), &scenario, 0, &hold);
            let executed = verdict.outcome.executed("t");
            let quick = executed.iter().filter(|effect| &*effect.label == "quick").count();
            assert_eq!(quick, 1, "{profile:?}, {resumes} resumes");
            assert_eq!(shown(&verdict.outcome), (1, edges), "{profile:?}, {resumes} resumes");
            let found: Vec<bool> =
                verdict.broken.iter().map(|line| line.contains("another run took over")).collect();
            assert_eq!(found, vec![true; resumes - 1], "{profile:?}: {:?}", verdict.broken);
        }
    }
}
