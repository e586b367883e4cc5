//! Which tasks run next.

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexMap;

use super::task::Task;
use crate::checkpoint::{Checkpoint, id, reserved, task_id};
use crate::graph::{Channels, GraphInner};

/// The tasks of the next super-step, by task id.
///
/// `updated` limits the nodes that are looked at to those triggered by these channels, and they come
/// in the order of their names. `None` and an empty set look at all nodes, and they come in the order
/// in which the graph declares them: so it shows in the snapshots of a thread. `step` is the
/// checkpoint's step plus one.
pub(crate) fn plan(
    graph: &GraphInner,
    checkpoint: &Checkpoint,
    channels: &Channels,
    step: i64,
    updated: Option<&BTreeSet<Arc<str>>>,
) -> IndexMap<Arc<str>, Task> {
    if checkpoint.channel_versions.is_empty() {
        return IndexMap::new();
    }
    let names: Vec<&Arc<str>> = match updated.filter(|updated| !updated.is_empty()) {
        None => graph.nodes.keys().collect(),
        Some(updated) => {
            let is_candidate =
                |name: &&Arc<str>| graph.nodes[*name].triggers.iter().any(|t| updated.contains(t));
            let mut names: Vec<_> = graph.nodes.keys().filter(is_candidate).collect();
            names.sort();
            names
        }
    };
    let checkpoint_id = id::uuid6_bytes(&checkpoint.id).unwrap_or_default();
    let mut input = None;
    names
        .into_iter()
        .filter(|name| is_triggered(graph, checkpoint, channels, name))
        .map(|name| {
            let triggers = &graph.nodes[name].triggers;
            let id = task_id::pull(&checkpoint_id, "", step, name, triggers);
            let task = Task {
                id: id.clone(),
                node: name.clone(),
                path: task_id::pull_path(name).into(),
                triggers: triggers.clone(),
                input: input.get_or_insert_with(|| graph.read_state(channels)).clone(),
                writes: vec![],
            };
            (id, task)
        })
        .collect()
}

/// Has any trigger channel a value that the node has not seen?
fn is_triggered(
    graph: &GraphInner,
    checkpoint: &Checkpoint,
    channels: &Channels,
    node: &Arc<str>,
) -> bool {
    let seen = checkpoint.versions_seen.get(node);
    graph.nodes[node].triggers.iter().any(|trigger| {
        let version = checkpoint.channel_versions.get(trigger);
        channels[trigger].is_available()
            && match seen {
                None => true,
                Some(seen) => version > seen.get(trigger),
            }
    })
}

/// Gives tasks that finished under this checkpoint before their writes back, so that they are not
/// run again. Errors, interrupts and answers do not count as finished.
pub(crate) fn restore_finished(
    tasks: &mut IndexMap<Arc<str>, Task>,
    pending: &[crate::checkpoint::PendingWrite],
) {
    for write in pending {
        let signal =
            matches!(&*write.channel, reserved::ERROR | reserved::INTERRUPT | reserved::RESUME);
        if let Some(task) = tasks.get_mut(&write.task)
            && !signal
        {
            task.writes.push((write.channel.clone(), write.value.clone()));
        }
    }
}
