//! Pairing executions with edges, one to one.

use std::collections::BTreeSet;

use durasim_models::Effect;

use super::edges::{Edge, Records};
use crate::outcome::StoredThread;

/// Pairs every recorded task with an execution of each of its effects and returns the executions
/// that are left. A record without an execution is a violation.
///
/// A record takes an execution of its own run; when there is none, one whose result that run took
/// over from a pending write. Every run has its own before any takes over another's, as the edges of
/// runs that overlap come in no useful order.
pub(super) fn pair<'a>(
    edges: &[Edge],
    stored: &StoredThread,
    executed: &[&'a Effect],
    violations: &mut Vec<String>,
) -> Vec<&'a Effect> {
    let mut holders: Vec<Holder> = executed.iter().map(|_| Holder::None).collect();
    let mut without = Vec::new();
    for record in edges.iter().flat_map(|edge| records(edge, executed)) {
        // The latest: an earlier one was cut off before it was recorded.
        let own = |i: &usize| {
            holders[*i] == Holder::None && record.fits(executed[*i]) && record.is_own(executed[*i])
        };
        match (0..executed.len()).rfind(own) {
            Some(i) => holders[i] = Holder::ItsRun,
            None => without.push(record),
        }
    }
    for record in without {
        let fitting =
            |i: &usize| record.fits(executed[*i]) && record.is_taken_over(executed[*i], stored);
        let free = |i: &usize| holders[*i] == Holder::None && fitting(i);
        // Its own run's put was still under way when this run read the checkpoint before it: two
        // siblings record the one execution, and there is nothing to take.
        let doubled = |i: &usize| holders[*i] == Holder::ItsRun && fitting(i);
        if let Some(i) = (0..executed.len()).rfind(free) {
            holders[i] = Holder::AnotherRun;
        } else if !(0..executed.len()).any(|i| doubled(&i)) {
            let twice = (0..executed.len()).any(|i| fitting(&i));
            violations.push(record.complaint(twice));
        }
    }
    let left = executed.iter().zip(holders).filter(|(_, holder)| *holder == Holder::None);
    left.map(|(effect, _)| *effect).collect()
}

/// Whose edge an execution lies on.
#[derive(PartialEq)]
enum Holder {
    None,
    ItsRun,
    AnotherRun,
}

/// One effect that an edge records.
struct Record<'a> {
    edge: &'a Edge,
    label: String,
    /// The task, when the edge is of one super-step.
    task: Option<&'a str>,
}

/// Every effect that an edge records, as often as it does.
fn records<'a>(edge: &'a Edge, executed: &[&Effect]) -> Vec<Record<'a>> {
    let mut records = Vec::new();
    let mut add = |node: &str, task: Option<&'a str>| {
        let labels = labels(executed, node).into_iter();
        records.extend(labels.map(|label| Record { edge, label, task }));
    };
    match &edge.records {
        Records::Step(tasks) => tasks.iter().for_each(|(node, task)| add(node, Some(task))),
        Records::Span { counts, .. } => {
            counts.iter().for_each(|(node, count)| (0..*count).for_each(|_| add(node, None)));
        }
    }
    records
}

impl Record<'_> {
    fn fits(&self, effect: &Effect) -> bool {
        *effect.label == *self.label
            && match (&self.edge.records, self.task) {
                (Records::Span { steps: (after, up_to), .. }, _) => {
                    *after < effect.step && effect.step <= *up_to
                }
                (_, task) => task == Some(&*effect.task),
            }
    }

    fn is_own(&self, effect: &Effect) -> bool {
        effect.request.as_deref() == self.edge.request.as_deref()
    }

    /// Another run executed it, from the very checkpoint that this edge leads out of, and left its
    /// result there as a pending write.
    fn is_taken_over(&self, effect: &Effect, stored: &StoredThread) -> bool {
        let signal =
            |channel: &str| matches!(channel, "__error__" | "__interrupt__" | "__resume__");
        !self.is_own(effect)
            && stored.writes.iter().any(|write| {
                write.task == *effect.task
                    && Some(&write.checkpoint) == self.edge.from.as_ref()
                    && !signal(&write.channel)
            })
    }

    fn complaint(&self, twice: bool) -> String {
        let Edge { parent, checkpoint, .. } = self.edge;
        let parent = parent.as_deref().unwrap_or("-");
        let task = self.task.map(|task| format!(" (task {task})")).unwrap_or_default();
        let label = &self.label;
        let why = match twice {
            false => "which did not execute for it",
            true => "whose one execution another run took over, too",
        };
        format!("edge {parent} -> {checkpoint} records {label}{task}, {why}")
    }
}

/// The effects that a node is known to have. One that never executed is looked for by its name.
fn labels(executed: &[&Effect], node: &str) -> BTreeSet<String> {
    let mine = executed.iter().filter(|effect| &*effect.node == node);
    let labels: BTreeSet<String> = mine.map(|effect| effect.label.to_string()).collect();
    if labels.is_empty() { BTreeSet::from([node.to_owned()]) } else { labels }
}
