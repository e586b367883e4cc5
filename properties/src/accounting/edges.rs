//! What each edge of the checkpoint tree records, read from the stored rows alone.

use std::collections::BTreeMap;

use super::task_id;
use crate::outcome::{Outcome, StoredCheckpoint, StoredThread};
use durasim_runtime::Durability;

/// One edge of the tree, from a parent to the checkpoint that a super-step made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edge {
    pub parent: Option<String>,
    pub checkpoint: String,
    /// What its records are measured from: the parent, or who stands in for one that was lost.
    pub from: Option<String>,
    /// The request whose run made it.
    pub request: Option<String>,
    pub records: Records,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Records {
    /// One super-step: node and task id of everything that ran in it.
    Step(Vec<(String, String)>),
    /// Several super-steps at once, those after the first of `steps` up to the second: how often
    /// each node left its name.
    Span { counts: BTreeMap<String, usize>, steps: (i64, i64) },
}

/// All edges that record executions. What contradicts itself goes to `violations`.
pub(super) fn read(
    outcome: &Outcome,
    stored: &StoredThread,
    violations: &mut Vec<String>,
) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    for checkpoint in stored.checkpoints.iter().filter(|c| c.namespace.is_empty()) {
        let parent = checkpoint.parent.as_deref().and_then(|id| stored.find(id));
        let lost_parent = checkpoint.parent.is_some() && parent.is_none();
        if lost_parent && !lost_by_a_known_failure(outcome, checkpoint) {
            violations.push(format!(
                "checkpoint {} (step {}) hangs on {}, which is not stored",
                checkpoint.id,
                checkpoint.step,
                checkpoint.parent.as_deref().unwrap_or_default(),
            ));
        }
        // An input marks the tasks it discards as seen without running them: no executions there.
        if checkpoint.source != "loop" {
            continue;
        }
        let spans = outcome.scenario.durability == Durability::Exit || lost_parent;
        let from = last_known(outcome, stored, checkpoint, parent);
        let records = match parent {
            Some(parent) if !spans => step(outcome, parent, checkpoint, violations),
            _ => span(outcome, from, checkpoint),
        };
        // Runs fork a thread, but no run takes the same step twice.
        let same_step = |edge: &&Edge| {
            edge.request.is_some()
                && edge.request == checkpoint.request
                && edge.parent == checkpoint.parent
        };
        if let Some(twin) = edges.iter().find(same_step) {
            violations.push(format!(
                "checkpoints {} and {} record the same step of request {}",
                twin.checkpoint,
                checkpoint.id,
                checkpoint.request.as_deref().unwrap_or_default(),
            ));
        }
        edges.push(Edge {
            parent: checkpoint.parent.clone(),
            checkpoint: checkpoint.id.clone(),
            from: from.map(|from| from.id.clone()),
            request: checkpoint.request.clone(),
            records,
        });
    }
    edges
}

/// Was the parent's own put seen to fail or to be cancelled?
fn lost_by_a_known_failure(outcome: &Outcome, checkpoint: &StoredCheckpoint) -> bool {
    outcome.trace.iter().any(|event| {
        matches!(event.name, "put.failed" | "put.cancelled")
            && event.labels.checkpoint.as_deref() == checkpoint.parent.as_deref()
    })
}

/// The checkpoint to measure a span from: the parent. When that was lost, the nearest stored one of
/// the same request before it; another request's would lie on another branch. When there is none,
/// the one that the request began with.
fn last_known<'a>(
    outcome: &Outcome,
    stored: &'a StoredThread,
    checkpoint: &StoredCheckpoint,
    parent: Option<&'a StoredCheckpoint>,
) -> Option<&'a StoredCheckpoint> {
    if parent.is_some() || checkpoint.parent.is_none() {
        return parent;
    }
    let own = stored.checkpoints.iter().rfind(|other| {
        other.namespace.is_empty()
            && other.request == checkpoint.request
            && other.id < checkpoint.id
            && other.step < checkpoint.step
    });
    let began_with = || {
        let loaded = outcome.trace.iter().find(|event| {
            event.name == "checkpoint.loaded"
                && event.labels.request.as_deref() == checkpoint.request.as_deref()
        })?;
        stored.find(loaded.labels.checkpoint.as_deref()?)
    };
    own.or_else(began_with)
}

/// One super-step. Which nodes ran is read twice, independently: from whose `versions_seen` moved,
/// and from the names that the transcript gained.
fn step(
    outcome: &Outcome,
    parent: &StoredCheckpoint,
    checkpoint: &StoredCheckpoint,
    violations: &mut Vec<String>,
) -> Records {
    let ran: Vec<&String> = ran(outcome, Some(parent), checkpoint);
    if outcome.graph.transcript.is_some() {
        let by_versions = counted(ran.iter().map(|node| node.to_string()));
        let by_transcript = gained(outcome, Some(parent), checkpoint);
        if by_versions != by_transcript {
            violations.push(format!(
                "edge to {} (step {}): versions_seen says {by_versions:?} ran, the transcript \
                 gained {by_transcript:?}",
                checkpoint.id, checkpoint.step,
            ));
        }
    }
    let tasks = ran.into_iter().map(|node| {
        let triggers = triggers(checkpoint, node);
        (node.clone(), task_id::pull(&parent.id, parent.step + 1, node, &triggers))
    });
    Records::Step(tasks.collect())
}

/// Several super-steps: what the transcript gained; without one, each node that ran, once.
fn span(
    outcome: &Outcome,
    from: Option<&StoredCheckpoint>,
    checkpoint: &StoredCheckpoint,
) -> Records {
    let counts = match outcome.graph.transcript {
        Some(_) => gained(outcome, from, checkpoint),
        None => counted(ran(outcome, from, checkpoint).into_iter().cloned()),
    };
    Records::Span { counts, steps: (from.map_or(i64::MIN, |from| from.step), checkpoint.step) }
}

/// Nodes with effects whose `versions_seen` moved.
fn ran<'a>(
    outcome: &Outcome,
    from: Option<&StoredCheckpoint>,
    checkpoint: &'a StoredCheckpoint,
) -> Vec<&'a String> {
    let before = |node: &String| from.and_then(|from| from.versions_seen.get(node));
    let moved = |node: &String| before(node) != checkpoint.versions_seen.get(node);
    // An input that came within the span has marked what was unfinished as seen: with the versions
    // that the triggers had before it.
    let has_input = moved(&"__start__".to_owned());
    let discarded = |seen: &BTreeMap<String, String>| {
        has_input
            && from.is_some_and(|from| seen.iter().all(|(k, v)| from.versions.get(k) == Some(v)))
    };
    checkpoint
        .versions_seen
        .iter()
        .filter(|(node, _)| !node.starts_with("__") && outcome.graph.has_effect(node))
        .filter(|(node, seen)| moved(node) && !discarded(seen))
        .map(|(node, _)| node)
        .collect()
}

/// How often each name was added to the transcript.
fn gained(
    outcome: &Outcome,
    from: Option<&StoredCheckpoint>,
    checkpoint: &StoredCheckpoint,
) -> BTreeMap<String, usize> {
    let key = outcome.graph.transcript.as_deref().unwrap_or_default();
    let before = from.map_or(0, |from| from.names(key).len());
    counted(checkpoint.names(key).into_iter().skip(before))
}

fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts
}

/// The trigger channels of a node: its branch, and the joins that lead to it.
fn triggers(checkpoint: &StoredCheckpoint, node: &str) -> Vec<String> {
    let leads_here = |channel: &&String| {
        channel.strip_prefix("join:").is_some_and(|rest| rest.rsplit(':').next() == Some(node))
    };
    let joins = checkpoint.versions.keys().filter(leads_here).cloned();
    joins.chain([format!("branch:to:{node}")]).collect()
}
