//! Graphs of up to six nodes, as data.

use durasim_properties::declarative::GraphSpec;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// Nodes are called by their place.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// What a node does, apart from leaving its name.
#[derive(Debug, Clone)]
struct Body {
    sleep_ms: u64,
    emits: bool,
    does: Doing,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    Effect,
    Nothing,
    /// Fails after its effect, as often as that in a life of its process.
    Fails(u64),
    /// Asks between two effects.
    Asks,
}

/// A graph under the name of its kind.
pub type Named = (&'static str, GraphSpec);

pub fn graph() -> impl Strategy<Value = Named> {
    prop_oneof![
        2 => vec(body(), 1..=6).prop_map(|bodies| ("line", line(&bodies))),
        3 => (vec(body(), 1..=6), 0..6usize, 0..6usize, 1..=4u64)
            .prop_map(|(bodies, from, long, laps)| ("loop", laps_of(&bodies, from, long, laps))),
        3 => (vec(body(), 2..=6), any::<bool>(), 2..=4usize)
            .prop_map(|(bodies, head, arms)| ("fan-join", fan(&bodies, head, arms, true))),
        2 => (vec(body(), 2..=6), any::<bool>(), 2..=4usize)
            .prop_map(|(bodies, head, arms)| ("fan-edges", fan(&bodies, head, arms, false))),
    ]
}

fn body() -> impl Strategy<Value = Body> {
    let does = prop_oneof![
        12 => Just(Doing::Effect),
        2 => Just(Doing::Nothing),
        1 => (1..=2u64).prop_map(Doing::Fails),
        1 => Just(Doing::Asks),
    ];
    let sleep_ms = prop_oneof![Just(0), Just(1), 2..400u64, Just(1_500)];
    (sleep_ms, any::<bool>(), does).prop_map(|(sleep_ms, emits, does)| Body {
        sleep_ms,
        emits,
        does,
    })
}

/// One after the other.
fn line(bodies: &[Body]) -> GraphSpec {
    let mut parts = Parts::new(bodies);
    parts.chain("START", 0..bodies.len(), "END");
    parts.spec()
}

/// Some nodes of a line go round until a counter has come to `laps`. The input sets it to 0.
fn laps_of(bodies: &[Body], from: usize, long: usize, laps: u64) -> GraphSpec {
    let from = from % bodies.len();
    let last = from + long % (bodies.len() - from);
    let mut parts = Parts::new(bodies);
    parts.chain("START", 0..last + 1, "");
    let after = NAMES.get(last + 1).filter(|_| last + 1 < bodies.len()).copied().unwrap_or("END");
    parts.chain("", last + 1..bodies.len(), "END");
    let again = (1..laps).map(|lap| (lap.to_string(), json!(NAMES[from])));
    let table: serde_json::Map<String, Json> = again.collect();
    parts
        .conditional
        .push(json!({ "from": NAMES[last], "channel": "laps", "table": table, "default": after }));
    let count = json!({ "do": "write", "values": { "laps": { "$add": ["laps", 1] } } });
    parts.actions[last].push(count);
    parts.spec()
}

/// Several arms side by side, with a node behind them all that waits for a list or is reached by each
/// on its own; arms differ in length, so the latter may run it more than once.
fn fan(bodies: &[Body], head: bool, arms: usize, joined: bool) -> GraphSpec {
    let mut parts = Parts::new(bodies);
    let (first, tail) = match bodies.len() {
        2 => (0, None),
        3 => (0, Some(2)),
        n => (usize::from(head), Some(n - 1)),
    };
    if first == 1 {
        parts.edge("START", NAMES[0]);
    }
    let entry = if first == 1 { NAMES[0] } else { "START" };
    let middle: Vec<usize> = (first..tail.unwrap_or(bodies.len())).collect();
    let arms = arms.min(middle.len());
    let mut ends = Vec::new();
    for arm in 0..arms {
        let mut previous = entry;
        for &node in middle.iter().skip(arm).step_by(arms) {
            parts.edge(previous, NAMES[node]);
            previous = NAMES[node];
        }
        ends.push(previous);
    }
    match tail {
        None => ends.iter().for_each(|end| parts.edge(end, "END")),
        Some(tail) => {
            match joined {
                true => parts.edges.push(json!([ends, NAMES[tail]])),
                false => ends.iter().for_each(|end| parts.edge(end, NAMES[tail])),
            }
            parts.edge(NAMES[tail], "END");
        }
    }
    parts.spec()
}

/// A graph under construction.
struct Parts {
    actions: Vec<Vec<Json>>,
    edges: Vec<Json>,
    conditional: Vec<Json>,
}

impl Parts {
    fn new(bodies: &[Body]) -> Parts {
        let nodes = bodies.iter().zip(NAMES);
        let actions = nodes.map(|(body, name)| body.actions(name)).collect();
        Parts { actions, edges: vec![], conditional: vec![] }
    }

    fn edge(&mut self, from: &str, to: &str) {
        self.edges.push(json!([from, to]));
    }

    /// Edges along these nodes; an empty name stands for no edge.
    fn chain(&mut self, before: &str, nodes: std::ops::Range<usize>, after: &str) {
        let names = NAMES[nodes].iter().copied();
        let all: Vec<&str> = [before].into_iter().chain(names).chain([after]).collect();
        for pair in all.windows(2).filter(|pair| !pair.contains(&"")) {
            self.edge(pair[0], pair[1]);
        }
    }

    fn spec(self) -> GraphSpec {
        let nodes: serde_json::Map<String, Json> = NAMES
            .into_iter()
            .zip(self.actions)
            .map(|(name, actions)| (name.to_owned(), json!({ "actions": actions })))
            .collect();
        let spec = json!({
            "channels": { "steps": { "reducer": "append" }, "laps": { "reducer": "last_value" } },
            "nodes": nodes,
            "edges": self.edges,
            "conditional_edges": self.conditional,
        });
        serde_json::from_value(spec).expect("a graph that reads")
    }
}

impl Body {
    fn actions(&self, name: &str) -> Vec<Json> {
        let effect = |label: &str| json!({ "do": "effect", "label": label });
        let mut actions = vec![json!({ "do": "sleep", "ms": self.sleep_ms })];
        if self.emits {
            actions.push(json!({ "do": "emit", "value": { "$node": true } }));
        }
        match self.does {
            Doing::Effect => actions.push(effect(name)),
            Doing::Nothing => return actions,
            Doing::Fails(times) => {
                actions.push(effect(name));
                actions.push(json!({ "do": "raise", "error": "ValueError", "times": times }));
            }
            Doing::Asks => {
                actions.push(effect(&format!("{name}-before")));
                actions.push(json!({ "do": "interrupt", "payload": { "$node": true } }));
                actions.push(effect(&format!("{name}-after")));
            }
        }
        let left = json!({ "steps": { "$list_node": true } });
        actions.push(json!({ "do": "write", "values": left }));
        actions
    }
}
