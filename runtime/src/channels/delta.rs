//! A channel that stores what was written to it, and now and then what that comes to.
//!
//! A checkpoint does not hold its value. The writes of each super-step stand beside the checkpoint
//! that the step started from, and the value of a loaded thread is folded from those of its
//! ancestors, back to the nearest that holds a snapshot. So a step stores what it adds, however
//! large the whole has grown. LangGraph's `DeltaChannel` (1.2.9, there in beta).

use std::sync::Arc;

use super::overwrite::overwritten;
use super::{Channel, ChannelError};
use crate::checkpoint::codec::read_delta_snapshot;
use crate::value::{Shared, Value};

type Fold = dyn Fn(Value, &[Shared]) -> Result<Value, String> + Send + Sync;

/// How many updates LangGraph lets pass between two snapshots, unless it is told otherwise.
const SNAPSHOT_FREQUENCY: u64 = 1000;

/// A channel that has passed this many super-steps without a snapshot gets one, written to or not:
/// the bound of the walk through a thread's past. LangGraph's default.
pub(crate) const LONGEST_WALK: u64 = 5000;

/// How writes to a delta channel fold into its value: an initial value, a function, and how often
/// the whole is stored.
#[derive(Clone)]
pub struct DeltaReducer {
    initial: Shared,
    fold: Arc<Fold>,
    snapshot_frequency: u64,
}

impl DeltaReducer {
    /// `fold` gets the value so far and one or more writes, oldest first; an `Err` names what does
    /// not fit. It must give the same whatever the writes are batched into, as a thread is read back
    /// in other batches than it was written in: `fold(fold(state, xs), ys)` is
    /// `fold(state, xs + ys)`.
    ///
    /// A snapshot is stored at every 1000th step that writes to the channel.
    pub fn new(
        initial: Value,
        fold: impl Fn(Value, &[Shared]) -> Result<Value, String> + Send + Sync + 'static,
    ) -> DeltaReducer {
        DeltaReducer {
            initial: Arc::new(initial),
            fold: Arc::new(fold),
            snapshot_frequency: SNAPSHOT_FREQUENCY,
        }
    }

    /// Lists are concatenated; starts as `[]`.
    pub fn append() -> DeltaReducer {
        DeltaReducer::new(Value::Array(vec![]), |mut sum, writes| {
            let Value::Array(items) = &mut sum else {
                return Err(format!("appends to a list, and holds {sum}"));
            };
            for write in writes {
                let more = write.as_array().ok_or(format!("appends lists, and got {write}"))?;
                items.extend(more.iter().cloned());
            }
            Ok(sum)
        })
    }

    /// A snapshot at every `updates`-th step that writes to the channel. 1 stores it whole with each
    /// of them; 0 is taken for 1.
    pub fn snapshot_frequency(mut self, updates: u64) -> DeltaReducer {
        self.snapshot_frequency = updates.max(1);
        self
    }

    /// Is a snapshot due, this many updates and super-steps after the last?
    pub(crate) fn is_due(&self, updates: u64, steps: u64) -> bool {
        updates >= self.snapshot_frequency || steps >= LONGEST_WALK
    }

    /// The value of a loaded thread: `seed` is that of the nearest ancestor that holds one, and `writes` are
    /// those from there on, oldest first. The last overwrite counts, and what came before it does
    /// not; several are fine, as they are of several steps.
    pub(crate) fn rebuild(
        &self,
        seed: Option<Shared>,
        writes: &[Shared],
    ) -> Result<Shared, ChannelError> {
        let reset = writes.iter().enumerate().rev().find_map(|(place, write)| {
            overwritten(write).map(|whole| (place + 1, self.whole(whole)))
        });
        let (from, base) = match reset {
            Some((from, whole)) => (from, whole),
            None => (0, seed.unwrap_or_else(|| self.initial.clone())),
        };
        self.folded(base, &writes[from..])
    }

    fn folded(&self, base: Shared, writes: &[Shared]) -> Result<Shared, ChannelError> {
        if writes.is_empty() {
            return Ok(base);
        }
        let sum = (self.fold)(Arc::unwrap_or_clone(base), writes);
        sum.map(Arc::new).map_err(ChannelError::Unfit)
    }

    /// An overwrite with nothing stands for the initial value, other than for a plain reducer.
    fn whole(&self, value: Value) -> Shared {
        match value {
            Value::Nil => self.initial.clone(),
            whole => Arc::new(whole),
        }
    }
}

/// What a stored value stands for: the content of a snapshot, or itself, where the channel was of
/// another kind before. One that is damaged is not told here; a run does not come this far with it.
fn held(stored: &Shared) -> Shared {
    let content = read_delta_snapshot(stored).ok().flatten();
    content.map_or_else(|| stored.clone(), Arc::new)
}

pub(super) struct Delta {
    reducer: DeltaReducer,
    value: Shared,
}

impl Delta {
    pub fn new(reducer: DeltaReducer, stored: Option<Shared>) -> Delta {
        let value = stored.map_or_else(|| reducer.initial.clone(), |stored| held(&stored));
        Delta { reducer, value }
    }
}

impl Channel for Delta {
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError> {
        let mut wholes = values.iter().filter_map(|value| overwritten(value));
        self.value = match (wholes.next(), wholes.next()) {
            (Some(_), Some(_)) => return Err(ChannelError::TwoOverwrites),
            // What else was written in the same step is lost, before and after.
            (Some(whole), None) => self.reducer.whole(whole),
            (None, _) => self.reducer.folded(self.value.clone(), values)?,
        };
        Ok(!values.is_empty())
    }

    fn get(&self) -> Option<Shared> {
        Some(self.value.clone())
    }

    /// Nothing: whether a checkpoint gets a snapshot is not the channel's to say.
    fn checkpoint(&self) -> Option<Shared> {
        None
    }
}

/// Does this step's batch reset the channel? LangGraph stores a snapshot then, as the other writes
/// of the step have rows too, and a walk that meets them cannot know that they were lost.
pub(crate) fn is_overwrite(write: &Value) -> bool {
    overwritten(write).is_some()
}
