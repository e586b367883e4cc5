//! Pairing executions with edges, one to one.

use durasim_models::Effect;
use durasim_sim::Event;

use super::edges::{Edge, Records};
use crate::outcome::{Outcome, StoredThread};

/// Pairs every recorded task with an execution of each of its effects and returns the executions
/// that are left. A record without an execution is a violation.
///
/// A record takes an execution of its own run; when there is none, one whose result that run took
/// over from a pending write. Every run has its own before any takes over another's, as the edges of
/// runs that overlap come in no useful order.
pub(super) fn pair<'a>(
    outcome: &Outcome,
    edges: &'a [Edge],
    stored: &StoredThread,
    executed: &[&'a Effect],
    violations: &mut Vec<String>,
) -> Vec<&'a Effect> {
    let mut holders: Vec<Option<(Holder, &Edge)>> = vec![None; executed.len()];
    let mut without = Vec::new();
    for record in edges.iter().flat_map(|edge| records(outcome, edge)) {
        // The latest: an earlier one was cut off before it was recorded.
        let own = |i: &usize| {
            holders[*i].is_none() && record.fits(executed[*i]) && record.is_own(executed[*i])
        };
        match (0..executed.len()).rfind(own) {
            Some(i) => holders[i] = Some((Holder::ItsRun, record.edge)),
            None => without.push(record),
        }
    }
    for record in without {
        let fitting =
            |i: &usize| record.fits(executed[*i]) && record.is_taken_over(executed[*i], stored);
        let free = |i: &usize| holders[*i].is_none() && fitting(i);
        // Its own run's put was still under way when this run read the checkpoint before it: two
        // siblings record the one execution, and there is nothing to take.
        let doubled = |i: &usize| match holders[*i] {
            Some((Holder::ItsRun, first)) => fitting(i) && overlap(outcome, first, record.edge),
            _ => false,
        };
        if let Some(i) = (0..executed.len()).rfind(free) {
            holders[i] = Some((Holder::AnotherRun, record.edge));
        } else if !(0..executed.len()).any(|i| doubled(&i)) {
            let twice = (0..executed.len()).any(|i| fitting(&i));
            violations.push(record.complaint(twice));
        }
    }
    let left = executed.iter().zip(holders).filter(|(_, holder)| holder.is_none());
    left.map(|(effect, _)| *effect).collect()
}

/// Whose edge an execution lies on.
#[derive(Clone, Copy)]
enum Holder {
    ItsRun,
    AnotherRun,
}

/// Was the put of `first` not yet acknowledged when the run of `second` loaded the checkpoint that
/// both lead out of?
fn overlap(outcome: &Outcome, first: &Edge, second: &Edge) -> bool {
    let of = |event: &&Event, name: &str, checkpoint: Option<&str>| {
        event.name == name && event.labels.checkpoint.as_deref() == checkpoint
    };
    let acknowledged = outcome
        .trace
        .iter()
        .find(|event| of(event, "put.acknowledged", Some(&first.checkpoint)))
        .map(|event| event.at);
    let loaded = |event: &&Event| {
        of(event, "checkpoint.loaded", second.from.as_deref())
            && event.labels.request.as_deref() == second.request.as_deref()
    };
    let mut loads = outcome.trace.iter().filter(loaded);
    loads.any(|event| acknowledged.is_none_or(|acknowledged| acknowledged >= event.at))
}

/// One effect that an edge records.
struct Record<'a> {
    edge: &'a Edge,
    label: String,
    /// The task, when the edge is of one super-step.
    task: Option<&'a str>,
}

/// Every effect that an edge records, as often as it does.
fn records<'a>(outcome: &Outcome, edge: &'a Edge) -> Vec<Record<'a>> {
    let mut records = Vec::new();
    let mut add = |node: &str, task: Option<&'a str>| {
        let labels = outcome.graph.labels(node).into_iter().map(str::to_owned);
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
