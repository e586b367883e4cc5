//! Can the runtime run a case? Decided from its description alone.

use std::time::Duration;

use durasim_runtime::StreamMode;

use super::case::{Case, Operation, RunOperation, threads};
use crate::declarative::{GraphSpec, unsupported};

/// A case that can be run.
pub struct Prepared {
    pub graph: GraphSpec,
    pub operations: Vec<Operation>,
    pub put_delay: Duration,
    /// Threads of the script, in order of appearance.
    pub threads: Vec<String>,
}

/// Reads a case, or gives the reasons why it cannot be run yet.
pub fn prepare(case: &Case) -> Result<Prepared, Vec<String>> {
    let mut reasons = Vec::new();
    let graph = serde_json::from_value::<GraphSpec>(case.spec.graph.clone());
    match &graph {
        Ok(graph) => reasons.extend(unsupported(graph)),
        Err(problem) => reasons.push(format!("the graph cannot be read: {problem}")),
    }
    let mut operations = Vec::new();
    for json in &case.spec.ops {
        match serde_json::from_value::<Operation>(json.clone()) {
            Ok(operation) => {
                reasons.extend(missing(&operation));
                operations.push(operation);
            }
            Err(problem) => reasons.push(format!("operation {json} cannot be read: {problem}")),
        }
    }
    match graph {
        Ok(graph) if reasons.is_empty() => Ok(Prepared {
            graph,
            put_delay: Duration::from_millis(
                case.spec.saver.as_ref().map_or(0, |saver| saver.put_delay_ms),
            ),
            threads: threads(&operations),
            operations,
        }),
        _ => {
            let mut unique: Vec<String> = Vec::new();
            for reason in reasons {
                if !unique.contains(&reason) {
                    unique.push(reason);
                }
            }
            Err(unique)
        }
    }
}

/// What an operation asks for that the runtime does not have.
fn missing(operation: &Operation) -> Vec<String> {
    match operation {
        Operation::Stream(run) => missing_of_run(run),
        Operation::Resume(run) => {
            let mut reasons = missing_of_run(run);
            if run.by_index.is_some() {
                reasons.push("a resume answers by interrupt id".to_owned());
            }
            if run.update.is_some() || run.goto.is_some() {
                reasons.push("a resume carries update or goto".to_owned());
            }
            reasons
        }
        Operation::Command(run) if run.update.is_none() && run.goto.is_none() => {
            vec!["an empty command: recorded is a crash of 1.2.9 itself, not a rule".to_owned()]
        }
        Operation::Command(_) => vec!["a command as input (update, goto)".to_owned()],
        Operation::UpdateState(_) => vec!["update_state".to_owned()],
        Operation::GetState(look) | Operation::History(look) if look.subgraphs => {
            vec!["get_state looks into subgraphs".to_owned()]
        }
        Operation::GetState(_) | Operation::History(_) | Operation::Sleep { .. } => vec![],
    }
}

fn missing_of_run(run: &RunOperation) -> Vec<String> {
    let mut reasons = Vec::new();
    if run.interrupt_before.is_some() || run.interrupt_after.is_some() {
        reasons.push("static interrupts (of one run)".to_owned());
    }
    if run.subgraphs {
        reasons.push("a stream shows subgraphs".to_owned());
    }
    if let Some(close) = &run.close_after
        && mode(&close.mode).is_none()
    {
        reasons.push(format!("a stream is closed at an event of mode {}", close.mode));
    }
    if let Some(other) = run.durability.as_deref()
        && !matches!(other, "default" | "sync" | "async" | "exit")
    {
        reasons.push(format!("durability {other}"));
    }
    reasons
}

/// The runtime's own mode of this name.
pub(super) fn mode(name: &str) -> Option<StreamMode> {
    StreamMode::ALL.into_iter().find(|mode| mode.name() == name)
}
