//! Can the runtime run a case? Decided from its description alone.

use std::time::Duration;

use durasim_runtime::StreamMode;

use super::case::{Case, Operation, threads};
use crate::declarative::GraphSpec;

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
    if let Err(problem) = &graph {
        reasons.push(format!("the graph cannot be read: {problem}"));
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
    let run = match operation {
        Operation::Stream(run) | Operation::Resume(run) | Operation::Command(run) => run,
        Operation::UpdateState(_)
        | Operation::GetState(_)
        | Operation::History(_)
        | Operation::Sleep { .. } => return vec![],
    };
    let mut reasons = Vec::new();
    let closing = run.close_after.iter().map(|close| &close.mode);
    for name in run.modes.iter().chain(closing).filter(|name| mode(name).is_none()) {
        reasons.push(format!("stream mode {name}"));
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
