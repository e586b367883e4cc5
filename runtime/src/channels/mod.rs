//! Channels: the cells that a graph's state is made of, and the rules by which writes fold in.

mod after_finish;
mod any_value;
mod barrier;
mod delta;
mod ephemeral;
mod last_value;
mod managed;
mod overwrite;
mod reducer;
mod topic;
mod untracked;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::value::Shared;
pub use delta::DeltaReducer;
pub(crate) use delta::is_overwrite;
pub use managed::{Managed, Progress};
pub use overwrite::overwrite;
pub(crate) use overwrite::overwritten;
pub use reducer::{Folded, Reducer};

/// Two writers, or a value of the wrong kind.
#[derive(Debug, Clone, thiserror::Error, PartialEq)]
pub enum ChannelError {
    #[error("takes one value per step, and got {0}; give it a reducer to take several")]
    Conflict(usize),
    #[error("takes one overwrite per step, and got another")]
    TwoOverwrites,
    #[error("{0}")]
    Unfit(String),
}

/// One cell of the state. Semantics as LangGraph's channels (FORMAT.md section 5).
pub trait Channel: Send {
    /// Folds this step's writes in, in task order. An empty slice tells the channel that a step
    /// passed without a write. True when the channel's version moves.
    fn update(&mut self, values: &[Shared]) -> Result<bool, ChannelError>;

    /// The value that nodes read, or `None` while the channel is empty.
    fn get(&self) -> Option<Shared>;

    /// What a checkpoint stores.
    fn checkpoint(&self) -> Option<Shared> {
        self.get()
    }

    fn is_available(&self) -> bool {
        self.get().is_some()
    }

    /// A task triggered by this channel has read it. True when the version moves.
    fn consume(&mut self) -> bool {
        false
    }

    /// Nothing else is left to run. True when the version moves.
    fn finish(&mut self) -> bool {
        false
    }
}

/// What kind of channel a key has, and how to build one from a checkpoint.
#[derive(Clone)]
pub enum ChannelSpec {
    /// The last value written; two writes in one step are an error.
    LastValue,
    /// Writes folded by a function.
    Reducer(Reducer),
    /// Writes folded by a function, of which checkpoints hold the writes and now and then the whole.
    Delta(DeltaReducer),
    /// The last value of the step before; several writers are taken to agree.
    AnyValue,
    /// Every value written, over all steps or in the last one.
    Topic { accumulates: bool },
    /// The last value written, kept only while the run lasts.
    Untracked,
    /// Kept for one step only. Several writers are fine.
    Ephemeral,
    /// The last value written, available once nothing else is left to run.
    LastValueAfterFinish,
    /// Available once every name in the list was written; kept across turns until consumed.
    Barrier(Arc<BTreeSet<Arc<str>>>),
    /// As a barrier, and only once nothing else is left to run.
    BarrierAfterFinish(Arc<BTreeSet<Arc<str>>>),
}

impl ChannelSpec {
    pub(crate) fn is_barrier(&self) -> bool {
        matches!(self, ChannelSpec::Barrier(_) | ChannelSpec::BarrierAfterFinish(_))
    }

    /// The channel as a checkpoint stored it, or fresh. Of a delta channel, a checkpoint seldom holds
    /// the value; see [`crate::checkpoint::saver::Saver::get_delta_channel_history`].
    pub fn open(&self, stored: Option<Shared>) -> Box<dyn Channel> {
        match self {
            ChannelSpec::LastValue => Box::new(last_value::LastValue(stored)),
            ChannelSpec::Reducer(reducer) => {
                Box::new(reducer::Aggregate::new(reducer.clone(), stored))
            }
            ChannelSpec::Delta(reducer) => Box::new(delta::Delta::new(reducer.clone(), stored)),
            ChannelSpec::AnyValue => Box::new(any_value::AnyValue(stored)),
            ChannelSpec::Topic { accumulates } => Box::new(topic::Topic::new(*accumulates, stored)),
            ChannelSpec::Untracked => Box::new(untracked::Untracked(None)),
            ChannelSpec::Ephemeral => Box::new(ephemeral::Ephemeral(stored)),
            ChannelSpec::LastValueAfterFinish => {
                Box::new(after_finish::LastValueAfterFinish::new(stored))
            }
            ChannelSpec::Barrier(names) => {
                Box::new(barrier::NamedBarrier::new(names.clone(), stored))
            }
            ChannelSpec::BarrierAfterFinish(names) => {
                Box::new(after_finish::BarrierAfterFinish::new(names.clone(), stored))
            }
        }
    }

    pub(crate) fn as_delta(&self) -> Option<&DeltaReducer> {
        match self {
            ChannelSpec::Delta(reducer) => Some(reducer),
            _ => None,
        }
    }
}
