//! One scenario, run twice and judged.

use std::collections::BTreeMap;

use durasim_properties::accounting::account;
use durasim_properties::world::{RunPlan, run};
use durasim_properties::{Outcome, Registry, Scenario};

/// How much of a violation's evidence is told.
const SHOWN: usize = 5;

pub struct Verdict {
    pub outcome: Outcome,
    /// Executions that no edge records, over all threads, by what explains them.
    pub explained: BTreeMap<&'static str, usize>,
    /// What does not hold, one line each.
    pub broken: Vec<String>,
}

pub fn judge(registry: &Registry, scenario: &Scenario, seed: u64, hold: &[String]) -> Verdict {
    let plan = RunPlan { seed, ..RunPlan::default() };
    let outcome = run(registry, scenario, plan);
    let again = run(registry, scenario, plan);
    let mut broken = Vec::new();
    for name in hold {
        let property = registry.find_property(name).expect("a property of this name");
        let found = property.check(&outcome).into_iter();
        broken.extend(found.map(|violation| format!("{name}: {}", violation.evidence)));
    }
    if outcome.hash != again.hash {
        broken.push("determinism: two runs of the one seed differ".to_owned());
    }
    let mut explained = BTreeMap::new();
    for thread in outcome.thread_names() {
        for (reason, count) in account(&outcome, thread).explained {
            *explained.entry(reason).or_default() += count;
        }
    }
    Verdict { outcome, explained, broken }
}

/// What is wrong, and the command that shows it.
pub fn report(broken: &[String], file: &str, scenario: &Scenario) -> String {
    let lines: Vec<&str> = broken.iter().take(SHOWN).map(String::as_str).collect();
    format!(
        "{} violations:\n{}\nthe case is kept in {file}; replay it with\n  \
         cargo xtask replay --scenario {file} --seed {}",
        broken.len(),
        lines.join("\n"),
        scenario.seed,
    )
}
