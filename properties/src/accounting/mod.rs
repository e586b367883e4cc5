//! The central property: effects add up along the edges of the checkpoint tree.
//!
//! For every thread, once all is quiet, `executed = recorded on tree edges + unrecorded`, as a
//! one-to-one matching and not as a subtraction. `edges` reads from the stored rows which tasks
//! each edge records; `matching` pairs executions with edges; `explain` looks for the event that
//! accounts for an execution without an edge. What is left over, on either side, is a violation.
//!
//! `kept` stands beside it: what was acknowledged is stored.

mod edges;
mod explain;
mod kept;
mod matching;
mod task_id;

use std::collections::BTreeMap;

pub use kept::lost;

use crate::outcome::Outcome;

/// The account of one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Executions that an edge records.
    pub recorded: usize,
    /// Executions that no edge records, by what explains them.
    pub explained: BTreeMap<&'static str, usize>,
    /// One line for each thing that does not add up.
    pub violations: Vec<String>,
}

/// Draws up the account of a thread.
pub fn account(outcome: &Outcome, thread: &str) -> Account {
    let mut account = Account::default();
    let stored = outcome.threads.get(thread).cloned().unwrap_or_default();
    let edges = edges::read(outcome, &stored, &mut account.violations);
    let executed = outcome.executed(thread);
    let unrecorded = matching::pair(outcome, &edges, &stored, &executed, &mut account.violations);
    account.recorded = executed.len() - unrecorded.len();
    for effect in unrecorded {
        match explain::explain(outcome, &stored, effect) {
            Ok(reason) => *account.explained.entry(reason).or_default() += 1,
            Err(problem) => account.violations.push(problem),
        }
    }
    account
}

/// Only what does not add up.
pub fn audit(outcome: &Outcome, thread: &str) -> Vec<String> {
    account(outcome, thread).violations
}
