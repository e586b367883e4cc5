//! Two requests at once on a thread that somebody left in the middle, on processes of their own.
//!
//! What varies is only which checkpoint the second request loads; hence the shape of the tree, and
//! what the head hides. In the second table the second request is held at its server's door until
//! a named checkpoint is the head.

use std::collections::BTreeMap;

use durasim_runtime::{CancelStyle, Durability, StreamMode};
use serde_json::{Map, Value as Json, json};

use super::measured::{AT_ONCE, LOADS};
use super::simulated::{self, Simulated, Stack};
use super::table::{Row, Table};
use crate::outcome::{StoredCheckpoint, StoredThread};
use crate::scenario::{Client, Leave, Moment, Scenario, Shape, Step};

/// The second request loads this checkpoint of the first one's run, or what the client left.
#[derive(Debug, Clone, Copy)]
pub(super) enum Loads {
    Left,
    /// By the step of its metadata.
    Step(i64),
}

/// Both requests at once, by durability and number of workers.
pub(super) fn at_once(simulated: &Simulated) -> Table {
    let rows = AT_ONCE.iter().map(|&(durability, workers, cells)| {
        let outcome = simulated.run(two_requests(simulated, durability, workers, None));
        let stored = outcome.threads.values().next().cloned().unwrap_or_default();
        let edge_sum = edge_sum(&stored);
        let charged =
            charges(&outcome.effects.iter().map(|e| e.label.to_string()).collect::<Vec<_>>());
        let most = stored.checkpoints.iter().map(|c| charges(&c.names("steps"))).max();
        let adds_up = if charged == edge_sum { "yes" } else { "no" };
        let simulated = vec![
            charged.to_string(),
            stored.checkpoints.len().to_string(),
            forks(&stored).to_string(),
            most.unwrap_or(0).to_string(),
            edge_sum.to_string(),
            adds_up.to_owned(),
        ];
        let key = vec![simulated::name(Some(durability)).to_owned(), workers.to_string()];
        Row::new(key, cells.split_whitespace().map(str::to_owned).collect(), simulated)
    });
    Table {
        name: "concurrent".to_owned(),
        title: "two requests at once, after a client that left".to_owned(),
        about: "The booking graph, inline. A client leaves after the second chunk; then two \
                messages arrive together, on processes of their\nown where there are several. \
                edge sum: charges on all edges of the checkpoint tree."
            .to_owned(),
        keys: ["durability", "workers"].map(str::to_owned).to_vec(),
        columns: ["charges", "checkpoints", "forks", "most charges in one", "edge sum", "adds up"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows.collect(),
    }
}

/// The second request, held until the first has come to a named checkpoint.
pub(super) fn by_load(simulated: &Simulated) -> Table {
    let rows = LOADS.iter().map(|&(name, loads, cells)| {
        let scenario = two_requests(simulated, Durability::Async, 4, Some(loads));
        let outcome = simulated.run(scenario);
        let stored = outcome.threads.values().next().cloned().unwrap_or_default();
        let transcript = stored.head().map(|head| head.names("steps")).unwrap_or_default();
        let simulated = vec![
            forks(&stored).to_string(),
            charges(&transcript).to_string(),
            super::quantity::letters(&transcript),
        ];
        let measured = cells.split_whitespace().map(str::to_owned).collect();
        Row::new(vec![name.to_owned()], measured, simulated)
    });
    Table {
        name: "loads".to_owned(),
        title: "what the second request loads decides the tree, and what the head hides".to_owned(),
        about: "As above at durability async with 4 workers; r0 left, r1 and r2 follow, and r2 is \
                held until the named checkpoint is the head."
            .to_owned(),
        keys: vec!["r2 loads".to_owned()],
        columns: ["forks", "charges in the head", "transcript"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn two_requests(
    simulated: &Simulated,
    durability: Durability,
    workers: u32,
    loads: Option<Loads>,
) -> Scenario {
    let stack = Stack {
        graph: "booking",
        shape: Shape::Inline,
        cancel: CancelStyle::Scope,
        given: Some(durability),
        modes: &[StreamMode::Updates],
        // Long enough that each checkpoint is the head for a while.
        put_ms: 20,
    };
    let message = || json!({ "steps": [] });
    let client = |name: &str, script: Vec<Step>| Client {
        name: name.to_owned(),
        thread: "thread".to_owned(),
        script,
    };
    let send = || Step::Send { input: message(), leave: Leave::Never };
    // Long after everything of the first request has settled.
    let later = || Step::Wait { ms: 4000 };
    let hold = loads.map(|loads| Step::Hold { until: loads.moment() });
    let clients = vec![
        client("r0", vec![Step::Send { input: message(), leave: Leave::AfterChunk(2) }]),
        client("r1", vec![later(), send()]),
        client("r2", [later()].into_iter().chain(hold).chain([send()]).collect()),
    ];
    Scenario { workers, clients, ..stack.scenario(simulated.stand, vec![]) }
}

impl Loads {
    /// When the head is that checkpoint.
    fn moment(self) -> Moment {
        let request = ("request", json!("r1.1"));
        let (event, fields): (_, Vec<(&str, Json)>) = match self {
            // Before the first request has stored anything.
            Loads::Left => ("run.started", vec![request]),
            Loads::Step(step) => ("put.acknowledged", vec![request, ("step", json!(step))]),
        };
        let with: Map<String, Json> =
            fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Moment { event: event.to_owned(), with, nth: 1 }
    }
}

fn charges(names: &[String]) -> usize {
    names.iter().filter(|name| *name == "charge").count()
}

/// Checkpoints with more than one child.
fn forks(stored: &StoredThread) -> usize {
    let mut children: BTreeMap<&str, usize> = BTreeMap::new();
    for parent in stored.checkpoints.iter().filter_map(|checkpoint| checkpoint.parent.as_deref()) {
        *children.entry(parent).or_default() += 1;
    }
    children.values().filter(|count| **count > 1).count()
}

/// Charges that checkpoints have over their parents, all over the tree.
fn edge_sum(stored: &StoredThread) -> usize {
    let of = |checkpoint: &StoredCheckpoint| charges(&checkpoint.names("steps"));
    let before = |checkpoint: &StoredCheckpoint| {
        checkpoint.parent.as_deref().and_then(|id| stored.find(id)).map_or(0, of)
    };
    stored.checkpoints.iter().map(|checkpoint| of(checkpoint) - before(checkpoint)).sum()
}
