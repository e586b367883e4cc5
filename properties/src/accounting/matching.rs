//! Pairing executions with edges, one to one.

use std::collections::BTreeSet;

use durasim_models::Effect;

use super::edges::{Edge, Records};
use crate::outcome::StoredThread;

/// Pairs every recorded task with an execution of each of its effects and returns the executions
/// that are left. A record without an execution is a violation.
pub(super) fn pair<'a>(
    edges: &[Edge],
    stored: &StoredThread,
    executed: &[&'a Effect],
    violations: &mut Vec<String>,
) -> Vec<&'a Effect> {
    let mut free: Vec<Option<&Effect>> = executed.iter().copied().map(Some).collect();
    for edge in edges {
        let here = Here { edge, stored, executed };
        match &edge.records {
            Records::Step(tasks) => {
                for (node, task) in tasks {
                    for label in labels(executed, node) {
                        let fits = |e: &Effect| *e.task == **task && *e.label == *label;
                        if !here.take(&mut free, fits) {
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
            Records::Span { counts, steps: (after, up_to) } => {
                for (node, count) in counts {
                    for label in labels(executed, node) {
                        for _ in 0..*count {
                            let within =
                                |e: &Effect| (after.saturating_add(1)..=*up_to).contains(&e.step);
                            let fits = |e: &Effect| *e.label == *label && within(e);
                            if !here.take(&mut free, fits) {
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

/// One edge among everything that it could be matched with.
struct Here<'a> {
    edge: &'a Edge,
    stored: &'a StoredThread,
    executed: &'a [&'a Effect],
}

impl Here<'_> {
    /// Takes a fitting execution: one of the edge's own run, else one whose result that run took
    /// over; the latest, since an earlier one was cut off before it was recorded.
    ///
    /// A result that was taken over may lie on another edge already: its own run's put was still
    /// under way when the next run read the checkpoint before it. Then two siblings record the one
    /// execution, and there is nothing to take.
    fn take(&self, free: &mut [Option<&Effect>], fits: impl Fn(&Effect) -> bool) -> bool {
        let found = |accept: &dyn Fn(&Effect) -> bool| {
            free.iter().rposition(|slot| slot.is_some_and(|effect| fits(effect) && accept(effect)))
        };
        let own = |effect: &Effect| self.is_own(effect);
        let taken_over = |effect: &Effect| self.is_taken_over(effect);
        match found(&own).or_else(|| found(&taken_over)) {
            Some(index) => {
                free[index] = None;
                true
            }
            None => self.executed.iter().any(|effect| fits(effect) && taken_over(effect)),
        }
    }

    fn is_own(&self, effect: &Effect) -> bool {
        effect.request.as_deref() == self.edge.request.as_deref()
    }

    /// Another run executed it, from the very checkpoint that this edge leads out of, and left its
    /// result there as a pending write.
    fn is_taken_over(&self, effect: &Effect) -> bool {
        let signal =
            |channel: &str| matches!(channel, "__error__" | "__interrupt__" | "__resume__");
        !self.is_own(effect)
            && self.stored.writes.iter().any(|write| {
                write.task == *effect.task
                    && Some(&write.checkpoint) == self.edge.from.as_ref()
                    && !signal(&write.channel)
            })
    }
}

/// The effects that a node is known to have. One that never executed is looked for by its name.
fn labels(executed: &[&Effect], node: &str) -> BTreeSet<String> {
    let mine = executed.iter().filter(|effect| &*effect.node == node);
    let labels: BTreeSet<String> = mine.map(|effect| effect.label.to_string()).collect();
    if labels.is_empty() { BTreeSet::from([node.to_owned()]) } else { labels }
}
