//! What the generated scenarios really reached. A kind of graph, of fault, of anything that never
//! came up has not been tested, however many scenarios there were.

use std::collections::BTreeMap;
use std::fmt;

use durasim_models::Effect;
use durasim_properties::scenario::Scenario;
use durasim_properties::{Outcome, Sight};

use crate::judge::Verdict;

#[derive(Default)]
pub struct Marks {
    counts: BTreeMap<String, u64>,
    scenarios: u64,
}

/// Of everything around a graph.
const SURROUNDINGS: [&str; 28] = [
    "shape: direct",
    "shape: inline",
    "shape: background",
    "shape: shielded",
    "store: memory",
    "store: sqlite",
    "durability: sync",
    "durability: async",
    "durability: exit",
    "cancel: close",
    "cancel: task",
    "cancel: scope",
    "profile: safe",
    "profile: faithful",
    "mode: custom",
    "mode: updates",
    "mode: values",
    "workers: 2",
    "two clients on one thread",
    "two clients on two threads",
    "a process was killed",
    "a put failed",
    "a put_writes failed",
    "a client left",
    "explained: process killed",
    "explained: run cancelled",
    "explained: discarded by a new input",
    "explained: put lost",
];

/// Beyond those, of generated graphs.
const OWN: [&str; 9] = [
    "line: three nodes one after the other",
    "loop: went round",
    "fan-join: siblings, and what waited for them",
    "fan-edges: siblings, and what each of them led to",
    "a question was answered",
    "explained: ran on as an orphan",
    "explained: asked, ran again",
    "explained: node failed after it",
    "explained: run ended early",
];

/// Beyond those, of generated payments.
const OF_PAYING: [&str; 4] =
    ["a charge was made", "a reply was lost", "a key was in use", "a charge's outcome was unknown"];

/// Every mark that the suite of generated graphs has to reach.
pub const GRAPHS: [&[&str]; 2] = [&SURROUNDINGS, &OWN];
/// And that of payments.
pub const PAYING: [&[&str]; 2] = [&SURROUNDINGS, &OF_PAYING];

impl Marks {
    pub fn scenarios(&self) -> u64 {
        self.scenarios
    }

    /// Counts what came up in one run.
    pub fn look(&mut self, verdict: &Verdict) {
        self.scenarios += 1;
        let outcome = &verdict.outcome;
        let mut mark = |mark: String| *self.counts.entry(mark).or_default() += 1;
        if outcome.effects.is_empty() {
            mark("nothing was executed".to_owned());
            return;
        }
        of_scenario(&outcome.scenario).into_iter().for_each(&mut mark);
        verdict.explained.keys().for_each(|reason| mark(format!("explained: {reason}")));
        let came_up = of_run(outcome).into_iter().filter(|(_, came_up)| *came_up);
        came_up.for_each(|(name, _)| mark(name.to_owned()));
    }

    /// Fails when one of these never came up.
    pub fn require(&self, marks: &[&[&str]]) {
        let wanted = marks.iter().copied().flatten();
        let never: Vec<_> = wanted.filter(|&&mark| !self.counts.contains_key(mark)).collect();
        assert!(never.is_empty(), "never came up: {never:?}\n{self}");
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts.iter().try_for_each(|(mark, runs)| writeln!(f, "{runs:>6}: {mark}"))
    }
}

fn of_scenario(scenario: &Scenario) -> Vec<String> {
    let mut marks = vec![
        format!("shape: {}", scenario.shape.name()),
        format!("store: {}", scenario.store.name()),
        format!("durability: {}", scenario.durability.name()),
        format!("cancel: {}", scenario.cancel.name()),
        format!("profile: {}", scenario.profile.name()),
        format!("workers: {}", scenario.workers),
    ];
    marks.extend(scenario.stream_modes.iter().map(|mode| format!("mode: {}", mode.name())));
    if let [first, second] = &scenario.clients[..] {
        let one = first.thread == second.thread;
        let on = if one { "on one thread" } else { "on two threads" };
        marks.push(format!("two clients {on}"));
    }
    marks
}

fn of_run(outcome: &Outcome) -> [(&'static str, bool); 13] {
    let happened = |name: &str| outcome.trace.iter().any(|event| event.name == name);
    let kind = |name: &str| outcome.scenario.graph == name;
    // Of pairs of effects of one run, the earlier one first.
    let pair = |fits: &dyn Fn(&Effect, &Effect) -> bool| {
        let effects = &outcome.effects;
        (0..effects.len()).any(|i| {
            let mut later = effects[i + 1..].iter().filter(|later| later.run == effects[i].run);
            later.any(|later| fits(&effects[i], later))
        })
    };
    let siblings = pair(&|a, b| a.step == b.step && a.node != b.node);
    let behind = pair(&|a, b| a.step < b.step && a.node != b.node);
    [
        (
            "line: three nodes one after the other",
            kind("line") && pair(&|a, b| a.step + 2 == b.step),
        ),
        ("loop: went round", kind("loop") && pair(&|a, b| a.node == b.node && a.step < b.step)),
        ("fan-join: siblings, and what waited for them", kind("fan-join") && siblings && behind),
        (
            "fan-edges: siblings, and what each of them led to",
            kind("fan-edges") && siblings && behind,
        ),
        (
            "a question was answered",
            outcome.effects.iter().any(|effect| effect.label.ends_with("-after")),
        ),
        ("a process was killed", happened("process.killed")),
        ("a put failed", happened("put.failed")),
        ("a put_writes failed", happened("writes.failed")),
        ("a client left", outcome.sights.iter().any(|sight: &Sight| sight.ending == "left")),
        ("a charge was made", !outcome.charges.is_empty()),
        ("a reply was lost", happened("payment.reply_lost")),
        ("a key was in use", happened("payment.conflict")),
        ("a charge's outcome was unknown", !outcome.unknown.is_empty()),
    ]
}
