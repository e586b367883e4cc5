//! The checkpoints of a run: when one is made, and what stands in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::core::{RunCore, RunState};
use super::deltas::{Counters, whole_value};
use crate::checkpoint::saver::Saver;
use crate::checkpoint::{ChannelVersions, Checkpoint, LAYOUT_VERSION, Source, version};
use crate::graph::GraphInner;
use crate::profile::{DeltaRows, Durability};

impl GraphInner {
    /// The version of the channels that change in a step.
    pub(super) fn next_version(
        &self,
        saver: Option<&Arc<dyn Saver>>,
        highest: Option<&str>,
    ) -> Arc<str> {
        let entropy = &*self.doors.entropy;
        match saver {
            Some(saver) => saver.next_version(highest, entropy),
            None => version::next_version(highest, entropy),
        }
    }
}

impl RunCore {
    /// Makes the step's checkpoint and, unless the durability is exit, submits its put.
    pub fn checkpoint_step(self: &Arc<Self>, state: &mut RunState, source: Source) {
        let store = self.saver.is_some() && self.config.durability != Durability::Exit;
        let mut counters = Counters::read(&self.graph, &state.metadata);
        counters.count(state.updated.as_ref());
        state.metadata.source = source;
        state.metadata.step = state.step;
        state.metadata.extra = self.config.metadata();
        state.metadata.parents =
            self.inside.as_ref().map_or_else(Default::default, |inside| inside.parents.clone());
        let whole = self.take_whole(state, &counters, store);
        state.checkpoint = self.snapshot(state, store, None, &whole);
        if store {
            self.submit_put(state, &whole);
        }
        state.step += 1;
    }

    /// The one put of exit durability: the last in-memory checkpoint, under its own id.
    pub fn checkpoint_exit(self: &Arc<Self>, state: &mut RunState) {
        if self.saver.is_none() || state.loaded.as_ref() == Some(&state.checkpoint.id) {
            return;
        }
        // The last step was counted when it was made.
        let counters = Counters::read(&self.graph, &state.metadata);
        let whole = self.take_whole(state, &counters, true);
        state.checkpoint = self.snapshot(state, true, Some(state.checkpoint.id.clone()), &whole);
        self.submit_put(state, &whole);
    }

    /// The checkpoint that takes the place of the state's own, whose maps it takes over, with
    /// snapshots of the delta channels in `whole`.
    pub(super) fn snapshot(
        &self,
        state: &mut RunState,
        values: bool,
        id: Option<Arc<str>>,
        whole: &BTreeSet<Arc<str>>,
    ) -> Checkpoint {
        let doors = self.doors();
        let old = &mut state.checkpoint;
        let mut channel_versions = std::mem::take(&mut old.channel_versions);
        let is_checked = self.graph.options.delta_rows == DeltaRows::Checked;
        let is_updated = |name| state.updated.as_ref().is_some_and(|set| set.contains(name));
        for name in whole {
            // A snapshot that is due in a step that did not write the channel: LangGraph gives it a
            // version, so that a saver that stores values by version has it. That is also a reason
            // to pause once more, and misses a fork, which takes over what its origin's step wrote.
            let is_renewed =
                !is_checked && channel_versions.contains_key(name) && !is_updated(name);
            // A channel that was never written needs a snapshot only against rows not its own.
            let is_first = is_checked && !channel_versions.contains_key(name);
            if is_renewed || is_first {
                let before = channel_versions.get(name).map(|version| &**version);
                let next = self.next_version(before);
                channel_versions.insert(name.clone(), next);
            }
        }
        let channel_values = match values {
            false => std::mem::take(&mut old.channel_values),
            true => state
                .channels
                .iter()
                .filter(|(name, _)| channel_versions.contains_key(*name))
                .filter_map(|(name, channel)| {
                    let value = match whole.contains(name) {
                        true => whole_value(&channel.get()?),
                        false => channel.checkpoint()?,
                    };
                    Some((name.clone(), value))
                })
                .collect(),
        };
        Checkpoint {
            layout: LAYOUT_VERSION,
            ts: crate::checkpoint::id::timestamp(doors.clock.now()),
            id: id.unwrap_or_else(|| self.next_id(state.step)),
            channel_values,
            channel_versions,
            versions_seen: std::mem::take(&mut old.versions_seen),
            updated_channels: state.updated.as_ref().map(|set| set.iter().cloned().collect()),
        }
    }

    /// The saver's, or LangGraph's where there is none.
    pub(super) fn next_version(&self, highest: Option<&str>) -> Arc<str> {
        self.graph.next_version(self.saver.as_ref(), highest)
    }

    fn next_id(&self, step: i64) -> Arc<str> {
        match &self.saver {
            Some(saver) => saver.next_id(&self.ids, step),
            None => self.ids.mint(step),
        }
    }

    /// The versions whose values may not be stored yet: those that moved, and those of snapshots.
    pub(super) fn new_versions(
        &self,
        checkpoint: &Checkpoint,
        stored: &ChannelVersions,
        whole: &BTreeSet<Arc<str>>,
    ) -> ChannelVersions {
        let is_checked = self.graph.options.delta_rows == DeltaRows::Checked;
        let is_new = |name: &Arc<str>, version: &Arc<str>| {
            Some(version) > stored.get(name) || (is_checked && whole.contains(name))
        };
        let versions = checkpoint.channel_versions.iter();
        let versions = versions.filter(|(name, version)| is_new(name, version));
        versions.map(|(name, version)| (name.clone(), version.clone())).collect()
    }
}
