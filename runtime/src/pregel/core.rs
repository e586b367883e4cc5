//! What one run knows, shared by its loop, its nodes and whoever ends it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use indexmap::IndexMap;

use super::config::RunConfig;
use super::exit::RunningNode;
use super::puts::Puts;
use super::task::Task;
use crate::checkpoint::{ChannelVersions, Checkpoint, Metadata, PendingWrite, ThreadKey, reserved};
use crate::doors::{Doors, Event, Labels, What};
use crate::graph::{Channels, GraphInner, NodeError};
use crate::stream::Outlet;
use crate::value::Value;

/// One run of one graph. Everything that outlives a dropped stream hangs here.
pub(crate) struct RunCore {
    pub graph: Arc<GraphInner>,
    pub config: RunConfig,
    pub key: ThreadKey,
    pub labels: Labels,
    pub outlet: Arc<Outlet>,
    /// Never held across an await.
    pub state: Mutex<RunState>,
}

pub(crate) struct RunState {
    pub checkpoint: Checkpoint,
    pub metadata: Metadata,
    pub channels: Channels,
    pub pending: Vec<PendingWrite>,
    /// The tasks of the current super-step.
    pub tasks: IndexMap<Arc<str>, Task>,
    pub updated: Option<BTreeSet<Arc<str>>>,
    pub step: i64,
    pub stop: i64,
    /// Id of the checkpoint that the run started from; its rows exist already.
    pub loaded: Option<Arc<str>>,
    /// Parent of the next put.
    pub head: Option<Arc<str>>,
    /// Channel versions at the previous put.
    pub stored_versions: ChannelVersions,
    pub puts: Puts,
    /// Nodes that run as their own task.
    pub running: IndexMap<Arc<str>, RunningNode>,
    /// Own-task nodes that ended and were not yet looked at by the loop.
    pub ended: Vec<(Arc<str>, Result<(), NodeError>)>,
    /// The answer among the pending writes that is addressed to nobody in particular, until a task
    /// of this step takes it.
    pub answer: Arc<Mutex<Option<Value>>>,
    /// The pending writes were looked through for a used answer since this step was planned.
    pub is_answer_settled: bool,
    /// The run started from an explicitly named checkpoint and has made no step yet.
    pub is_replaying: bool,
    /// Exit duties were begun, or never will be: nothing that ends later is recorded.
    pub is_over: bool,
}

impl RunState {
    /// A step begins: an answer that is addressed to nobody is there for its tasks to take.
    pub fn offer_answer(&mut self) {
        let answer = self.pending.iter().find(|write| is_unaddressed_answer(write));
        self.answer = Arc::new(Mutex::new(answer.map(|write| (*write.value).clone())));
        self.is_answer_settled = false;
    }

    /// An answer that a task took is no longer pending. As in LangGraph only up to the step's first
    /// end of a task: one that is taken later stays, and is stored again at exit durability.
    pub fn drop_used_answer(&mut self) {
        if !std::mem::replace(&mut self.is_answer_settled, true)
            && self.answer.lock().unwrap().is_none()
        {
            self.pending.retain(|write| !is_unaddressed_answer(write));
        }
    }
}

fn is_unaddressed_answer(write: &PendingWrite) -> bool {
    &*write.task == reserved::NULL_TASK && &*write.channel == reserved::RESUME
}

impl RunCore {
    pub fn doors(&self) -> &Doors {
        &self.graph.doors
    }

    pub fn observe(&self, what: impl FnOnce() -> What) {
        let observer = &self.graph.doors.observer;
        if observer.enabled() {
            observer.observe(Event { labels: self.labels.clone(), what: what() });
        }
    }

    /// The actor id of a task of this run.
    pub fn actor(&self, what: &str) -> String {
        let run = self.labels.run.as_deref().unwrap_or("-");
        format!("{run}/{what}")
    }
}
