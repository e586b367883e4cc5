//! A worker process: runs seeds as told on standard input, and answers with one JSON line a seed.
//!
//! Every process-wide state that could leak from seed to seed is a worker's own, and a worker that
//! dies takes nobody with it.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::accounting;
use crate::outcome::Outcome;
use crate::property::Violation;
use crate::registry::Registry;
use crate::scenario::Scenario;
use crate::world::{RunPlan, run};

/// Runs `seeds` of a scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Comes back with every answer.
    pub id: usize,
    pub scenario: Scenario,
    pub seeds: Vec<u64>,
}

/// What came of one seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub job: usize,
    pub seed: u64,
    /// Of the whole trace.
    pub hash: u64,
    pub executed: usize,
    pub recorded: usize,
    /// Executions without an edge, by what explains them.
    pub explained: BTreeMap<String, usize>,
    /// Of the properties that must hold.
    pub findings: Vec<Violation>,
    /// Of the properties that the scenario is there to break.
    pub demonstrated: Vec<Violation>,
}

/// Answers jobs until standard input ends.
pub fn work(registry: &Registry) -> Result<bool, String> {
    let stdin = std::io::stdin().lock();
    let mut stdout = std::io::stdout().lock();
    for line in stdin.lines() {
        let line = line.map_err(|error| error.to_string())?;
        let job: Job = serde_json::from_str(&line).map_err(|error| format!("job: {error}"))?;
        for &seed in &job.seeds {
            let outcome = run(registry, &job.scenario, RunPlan { seed, ..RunPlan::default() });
            let verdict = judge(registry, &outcome, job.id);
            let answer = serde_json::to_string(&verdict).map_err(|error| error.to_string())?;
            writeln!(stdout, "{answer}").map_err(|error| error.to_string())?;
        }
        stdout.flush().map_err(|error| error.to_string())?;
    }
    Ok(true)
}

/// Checks every property that the scenario names, and whether the run ended at all, which no
/// scenario needs to ask for.
pub fn judge(registry: &Registry, outcome: &Outcome, job: usize) -> Verdict {
    let expect = &outcome.scenario.expect;
    let broken = |names: &[String]| -> Vec<Violation> {
        let named = names.iter().filter_map(|name| registry.find_property(name));
        named.flat_map(|property| property.check(outcome)).collect()
    };
    let whole = registry.find_property("whole").map(|whole| whole.check(outcome));
    let mut findings = whole.unwrap_or_default();
    // What was not read to its end cannot be judged further.
    if outcome.crash.is_some() {
        return Verdict {
            job,
            seed: outcome.seed,
            hash: outcome.hash,
            executed: outcome.effects.len(),
            recorded: 0,
            explained: BTreeMap::new(),
            findings,
            demonstrated: vec![],
        };
    }
    let hold: Vec<String> =
        expect.hold.iter().filter(|property| *property != "whole").cloned().collect();
    findings.extend(broken(&hold));
    let mut explained: BTreeMap<String, usize> = BTreeMap::new();
    let mut recorded = 0;
    for thread in outcome.thread_names() {
        let account = accounting::account(outcome, thread);
        recorded += account.recorded;
        for (reason, count) in account.explained {
            *explained.entry(reason.to_owned()).or_default() += count;
        }
    }
    Verdict {
        job,
        seed: outcome.seed,
        hash: outcome.hash,
        executed: outcome.effects.len(),
        recorded,
        explained,
        findings,
        demonstrated: broken(&expect.demonstrates),
    }
}
