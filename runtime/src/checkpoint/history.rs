//! What a delta channel is rebuilt from: a walk from a checkpoint through its ancestors.
//!
//! The rules are those of `BaseCheckpointSaver.get_delta_channel_history` (langgraph-checkpoint
//! 4.3.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::saver::{Saver, SaverError};
use super::{PendingWrite, ThreadKey};
use crate::ordered::IndexMap;
use crate::value::Shared;

/// The past of one channel, as seen from a checkpoint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeltaHistory {
    /// What the nearest ancestor that holds the channel has for it: a snapshot, or a plain value where
    /// the channel was of another kind before. `None` when there is none up to the root.
    pub seed: Option<Shared>,
    /// What was written to the channel beside that ancestor and those after it, oldest first. Within
    /// one checkpoint they are in the saver's order of pending writes.
    ///
    /// The writes beside the checkpoint itself are not among them: they belong to the step after it.
    pub writes: Vec<PendingWrite>,
}

/// By channel; there is an entry for each that was asked for, or none at all if the checkpoint is not
/// stored.
pub type DeltaHistories = BTreeMap<Arc<str>, DeltaHistory>;

/// The walk under way. Feed it ancestors, nearest first, for as long as it is not [`Walk::is_over`].
pub(super) struct Walk {
    /// With their writes newest first.
    found: DeltaHistories,
}

impl Walk {
    pub fn new(channels: &[Arc<str>]) -> Walk {
        Walk { found: channels.iter().map(|name| (name.clone(), Default::default())).collect() }
    }

    /// Every channel has its seed.
    pub fn is_over(&self) -> bool {
        self.found.values().all(|history| history.seed.is_some())
    }

    /// Is this channel asked for, and without a seed as yet?
    pub fn wants(&self, channel: &str) -> bool {
        self.found.get(channel).is_some_and(|history| history.seed.is_none())
    }

    /// An ancestor's writes, in the saver's order, and then its values. Its values are those before
    /// its writes, so a seed does not make the writes beside it superfluous.
    pub fn visit(
        &mut self,
        values: &IndexMap<Arc<str>, Shared>,
        writes: impl DoubleEndedIterator<Item = PendingWrite>,
    ) {
        for write in writes.rev() {
            match self.found.get_mut(&write.channel) {
                Some(history) if history.seed.is_none() => history.writes.push(write),
                _ => {}
            }
        }
        for (channel, history) in &mut self.found {
            if history.seed.is_none() {
                history.seed = values.get(channel).cloned();
            }
        }
    }

    pub fn end(mut self) -> DeltaHistories {
        self.found.values_mut().for_each(|history| history.writes.reverse());
        self.found
    }
}

/// The walk by [`Saver::get_tuple`], one call for each ancestor.
pub(super) async fn by_tuples<S: Saver + ?Sized>(
    saver: &S,
    key: ThreadKey,
    id: Option<Arc<str>>,
    channels: Vec<Arc<str>>,
) -> Result<DeltaHistories, SaverError> {
    let mut walk = Walk::new(&channels);
    if walk.is_over() {
        return Ok(walk.end());
    }
    let target = saver.get_tuple(&key, id.as_deref()).await?;
    let Some(target) = target else { return Ok(DeltaHistories::new()) };
    // One that comes again is its own ancestor: it would hold the walk for ever.
    let mut seen = BTreeSet::from([target.checkpoint.id.clone()]);
    let mut next = target.parent;
    while let Some(ancestor) = next.take_if(|id| !walk.is_over() && seen.insert(id.clone())) {
        // An ancestor that was never stored ends it, as the root does.
        let Some(tuple) = saver.get_tuple(&key, Some(&ancestor)).await? else { break };
        walk.visit(&tuple.checkpoint.channel_values, tuple.writes.into_iter());
        next = tuple.parent;
    }
    Ok(walk.end())
}
