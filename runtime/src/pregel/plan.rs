//! Which tasks run next.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::task::{Origin, Task};
use crate::channels::Progress;
use crate::checkpoint::{Checkpoint, codec, id, reserved, task_id};
use crate::graph::{Channels, GraphInner, NodeBody, NodePlan, State};
use crate::ordered::IndexMap;
use crate::value::Value;

/// Where a plan is made.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub graph: &'a GraphInner,
    pub namespace: &'a str,
    /// `step` is the checkpoint's step plus one.
    pub progress: Progress,
}

/// The tasks of the next super-step, by task id: those of Sends first, then those of edges.
///
/// `updated` limits the nodes that are looked at to those triggered by these channels, and they come
/// in the order of their names. `None` and an empty set look at all nodes, and they come in the order
/// in which the graph declares them: so it shows in the snapshots of a thread.
pub(crate) fn plan(
    place: Place<'_>,
    checkpoint: &Checkpoint,
    channels: &Channels,
    updated: Option<&BTreeSet<Arc<str>>>,
) -> IndexMap<Arc<str>, Task> {
    let Place { graph, namespace, progress } = place;
    if checkpoint.channel_versions.is_empty() {
        return IndexMap::default();
    }
    let checkpoint_id = id::uuid6_bytes(&checkpoint.id).unwrap_or_default();
    let mut tasks = sent(place, &checkpoint_id, channels);
    let mut whole = None;
    for name in candidates(graph, updated) {
        let node = &graph.nodes[name];
        if !is_triggered(node, name, checkpoint, channels) {
            continue;
        }
        let triggers = &node.triggers;
        let id = task_id::pull(&checkpoint_id, namespace, progress.step, name, triggers);
        let input = match node.reads {
            None => whole.get_or_insert_with(|| graph.node_input(node, channels, progress)).clone(),
            Some(_) => graph.node_input(node, channels, progress),
        };
        let task = Task {
            id: id.clone(),
            node: name.clone(),
            origin: Origin::Edge(name.clone()),
            triggers: triggers.clone(),
            input,
            writes: vec![],
            handles: None,
        };
        tasks.insert(id, task);
    }
    tasks
}

/// The tasks of the Sends that the step before left. One to a node that is not there is ignored.
fn sent(
    place: Place<'_>,
    checkpoint_id: &[u8; 16],
    channels: &Channels,
) -> IndexMap<Arc<str>, Task> {
    let Place { graph, namespace, progress } = place;
    let Some(sends) = channels.get(reserved::TASKS).and_then(|channel| channel.get()) else {
        return IndexMap::default();
    };
    let trigger: Arc<str> = reserved::PUSH.into();
    let sends = sends.as_array().map_or(&[][..], Vec::as_slice).iter().enumerate();
    sends
        .filter_map(|(index, send)| {
            let (node, argument) = codec::read_send(send)?;
            let (node, plan) = graph.nodes.get_key_value(node.as_str())?;
            if matches!(plan.body, NodeBody::Start) {
                return None;
            }
            let id = task_id::push(checkpoint_id, namespace, progress.step, node, index);
            let task = Task {
                id: id.clone(),
                node: node.clone(),
                origin: Origin::Send(index),
                triggers: vec![trigger.clone()],
                input: State::of_argument(&Arc::<Value>::new(argument)),
                writes: vec![],
                handles: None,
            };
            Some((id, task))
        })
        .collect()
}

fn candidates<'g>(
    graph: &'g GraphInner,
    updated: Option<&BTreeSet<Arc<str>>>,
) -> Vec<&'g Arc<str>> {
    let Some(updated) = updated.filter(|updated| !updated.is_empty()) else {
        return graph.nodes.keys().collect();
    };
    let triggered = updated.iter().filter_map(|channel| graph.triggered.get(channel));
    let names: BTreeSet<&Arc<str>> = triggered.flatten().collect();
    names.into_iter().collect()
}

/// Has any trigger channel a value that the node has not seen?
fn is_triggered(
    node: &NodePlan,
    name: &Arc<str>,
    checkpoint: &Checkpoint,
    channels: &Channels,
) -> bool {
    let seen = checkpoint.versions_seen.get(name);
    node.triggers.iter().any(|trigger| {
        let version = checkpoint.channel_versions.get(trigger);
        channels[trigger].is_available()
            && match seen {
                None => true,
                Some(seen) => version > seen.get(trigger),
            }
    })
}

/// Gives tasks that finished under this checkpoint before their writes back, so that they are not
/// run again. Errors, the marks beside them, interrupts and answers do not count as finished.
pub(crate) fn restore_finished(
    tasks: &mut IndexMap<Arc<str>, Task>,
    pending: &[crate::checkpoint::PendingWrite],
) {
    for write in pending {
        let signal = matches!(
            &*write.channel,
            reserved::ERROR | reserved::ERROR_SOURCE_NODE | reserved::INTERRUPT | reserved::RESUME
        );
        if let Some(task) = tasks.get_mut(&write.task)
            && !signal
        {
            task.writes.push((write.channel.clone(), write.value.clone()));
        }
    }
}

/// Of `tasks`, does any stop at a static interrupt of these `nodes`? One that the thread was already
/// resumed at, and where nothing has changed since, does not.
pub(crate) fn pauses<'t>(
    nodes: &[Arc<str>],
    checkpoint: &Checkpoint,
    mut tasks: impl Iterator<Item = &'t Task>,
) -> bool {
    if nodes.is_empty() {
        return false;
    }
    let seen = checkpoint.versions_seen.get(reserved::INTERRUPT);
    let is_news = |(channel, version): (&Arc<str>, &Arc<str>)| {
        Some(version) > seen.and_then(|seen| seen.get(channel))
    };
    let is_all = nodes.iter().any(|name| &**name == "*");
    let stops = |task: &Task| match is_all {
        true => !task.is_hidden(),
        false => nodes.contains(&task.node),
    };
    checkpoint.channel_versions.iter().any(is_news) && tasks.any(stops)
}
