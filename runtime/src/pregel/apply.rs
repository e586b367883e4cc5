//! How the writes of a super-step become the next state.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::RunError;
use super::task::{Origin, Task};
use crate::checkpoint::{Checkpoint, reserved};
use crate::graph::{Channels, GraphInner};
use crate::ordered::IndexMap;
use crate::value::Shared;

/// What one task contributes to a super-step.
pub(crate) struct Contribution<'a> {
    pub node: &'a str,
    /// `None` for an input.
    pub origin: Option<&'a Origin>,
    pub triggers: &'a [Arc<str>],
    pub writes: &'a [(Arc<str>, Shared)],
}

impl<'a> From<&'a Task> for Contribution<'a> {
    fn from(task: &'a Task) -> Contribution<'a> {
        Contribution {
            node: &task.node,
            origin: Some(&task.origin),
            triggers: &task.triggers,
            writes: &task.writes,
        }
    }
}

/// Applies the contributions in task-path order and returns the channels that changed and are
/// available. All changed channels get one new version, one above the highest of all.
pub(crate) fn apply(
    graph: &GraphInner,
    checkpoint: &mut Checkpoint,
    channels: &mut Channels,
    mut tasks: Vec<Contribution<'_>>,
    next_version: impl FnOnce(Option<&str>) -> Arc<str>,
) -> Result<BTreeSet<Arc<str>>, RunError> {
    tasks.sort_by(|a, b| a.origin.cmp(&b.origin));
    // Writes of no task (a command's) do not make a step.
    let is_step = tasks.iter().any(|task| !task.triggers.is_empty());

    for task in &tasks {
        let seen = checkpoint.versions_seen.entry(task.node.into()).or_default();
        for trigger in task.triggers {
            if let Some(version) = checkpoint.channel_versions.get(trigger) {
                seen.insert(trigger.clone(), version.clone());
            }
        }
    }

    let highest = checkpoint.channel_versions.values().max().cloned();
    let next = next_version(highest.as_deref());
    let versions = &mut checkpoint.channel_versions;

    let read: BTreeSet<&Arc<str>> = tasks.iter().flat_map(|task| task.triggers).collect();
    for name in read {
        if channels.get_mut(name).is_some_and(|channel| channel.consume()) {
            versions.insert(name.clone(), next.clone());
        }
    }

    let mut by_channel: IndexMap<&Arc<str>, (Vec<Shared>, Vec<&str>)> = IndexMap::default();
    for task in &tasks {
        for (name, value) in task.writes {
            if channels.contains_key(name) {
                let (values, nodes) = by_channel.entry(name).or_default();
                values.push(value.clone());
                nodes.push(task.node);
            }
        }
    }

    let mut updated = BTreeSet::new();
    for (name, (values, nodes)) in by_channel {
        let channel = &mut channels[name];
        let moved = channel.update(&values).map_err(|error| RunError::InvalidUpdate {
            channel: name.to_string(),
            nodes: nodes.into_iter().map(str::to_owned).collect(),
            problem: error.to_string(),
        })?;
        if moved {
            versions.insert(name.clone(), next.clone());
            if channel.is_available() {
                updated.insert(name.clone());
            }
        }
    }

    // Channels that nobody wrote learn that a step has passed.
    if is_step {
        for (name, channel) in channels.iter_mut() {
            if channel.is_available()
                && !updated.contains(name)
                && channel.update(&[]).is_ok_and(|moved| moved)
            {
                versions.insert(name.clone(), next.clone());
                if channel.is_available() {
                    updated.insert(name.clone());
                }
            }
        }
        if !updated.iter().any(|name| graph.triggered.contains_key(name)) {
            for (name, channel) in channels.iter_mut() {
                if channel.finish() {
                    versions.insert(name.clone(), next.clone());
                    if channel.is_available() {
                        updated.insert(name.clone());
                    }
                }
            }
        }
    }
    Ok(updated)
}

/// The contribution of an input: no origin, no triggers.
pub(crate) fn from_input(writes: &[(Arc<str>, Shared)]) -> Contribution<'_> {
    Contribution { node: reserved::INPUT, origin: None, triggers: &[], writes }
}
