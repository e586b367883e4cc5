//! Pairing executions with edges, one to one.

use std::collections::BTreeSet;

use durasim_models::Effect;

use super::edges::{Edge, Records};

/// Pairs every recorded task with an execution of each of its effects and returns the executions
/// that are left. A record without an execution is a violation.
pub(super) fn pair<'a>(
    edges: &[Edge],
    executed: &[&'a Effect],
    violations: &mut Vec<String>,
) -> Vec<&'a Effect> {
    let mut free: Vec<Option<&Effect>> = executed.iter().copied().map(Some).collect();
    for edge in edges {
        match &edge.records {
            Records::Step(tasks) => {
                for (node, task) in tasks {
                    for label in labels(executed, node) {
                        let fits = |e: &Effect| *e.task == **task && *e.label == *label;
                        if !take(&mut free, edge, fits) {
                            violations.push(format!(
                                "edge {} -> {} records {label} (task {task}), which did not \
                                 execute for it",
                                edge.parent.as_deref().unwrap_or("-"),
                                edge.checkpoint,
                            ));
                        }
                    }
                }
            }
            Records::Span(counts) => {
                for (node, count) in counts {
                    for label in labels(executed, node) {
                        for _ in 0..*count {
                            // Executed by the edge's own run, or finished earlier from the very
                            // checkpoint that the run started from and taken over by it.
                            let fits = |e: &Effect| {
                                *e.label == *label
                                    && (e.request.as_deref() == edge.request.as_deref()
                                        || Some(&*e.checkpoint) == edge.parent.as_deref())
                            };
                            if !take(&mut free, edge, fits) {
                                violations.push(format!(
                                    "the edge to {} records {count} of {label}; not that many \
                                     executed for it",
                                    edge.checkpoint,
                                ));
                            }
                        }
                    }
                }
            }
        }
    }
    free.into_iter().flatten().collect()
}

/// Takes one fitting execution: one of the edge's own run if there is one, and the latest, since
/// an earlier one was cut off before it was recorded.
fn take(free: &mut [Option<&Effect>], edge: &Edge, fits: impl Fn(&Effect) -> bool) -> bool {
    let own = |effect: &Effect| effect.request.as_deref() == edge.request.as_deref();
    let found = |accept: &dyn Fn(&Effect) -> bool| {
        free.iter().rposition(|slot| slot.is_some_and(|effect| fits(effect) && accept(effect)))
    };
    match found(&own).or_else(|| found(&|_| true)) {
        Some(index) => {
            free[index] = None;
            true
        }
        None => false,
    }
}

/// The effects that a node is known to have. One that never executed is looked for by its name.
fn labels(executed: &[&Effect], node: &str) -> BTreeSet<String> {
    let mine = executed.iter().filter(|effect| &*effect.node == node);
    let labels: BTreeSet<String> = mine.map(|effect| effect.label.to_string()).collect();
    if labels.is_empty() { BTreeSet::from([node.to_owned()]) } else { labels }
}
