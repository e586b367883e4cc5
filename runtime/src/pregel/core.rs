//! What one run knows, shared by its loop, its nodes and whoever ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

use futures::channel::oneshot;
use tokio::sync::Semaphore;

use super::config::RunConfig;
use super::deltas::Deltas;
use super::entered::Entered;
use super::handler::PastFailure;
use super::plan::Place;
use super::puts::Puts;
use super::running::Running;
use super::task::Task;
use crate::channels::Progress;
use crate::checkpoint::id::Ids;
use crate::checkpoint::saver::Claim;
use crate::checkpoint::saver::Saver;
use crate::checkpoint::{ChannelVersions, Checkpoint, Metadata, PendingWrite, ThreadKey, reserved};
use crate::doors::{Doors, Event, Labels, What};
use crate::graph::{Channels, GraphInner, NodeError, State, TimedAttempt};
use crate::ordered::{IndexMap, IndexSet};
use crate::profile::CancelStyle;
use crate::stream::Outlet;
use crate::value::Value;

/// One run of one graph. Everything that outlives a dropped stream hangs here.
pub(crate) struct RunCore {
    pub graph: Arc<GraphInner>,
    pub config: RunConfig,
    pub key: ThreadKey,
    /// The stream shows what the graph gives back, and not the whole state.
    pub only_output: bool,
    /// That of the graph, or of the run around this one.
    pub saver: Option<Arc<dyn Saver>>,
    /// What must still be so when something of this run is stored.
    pub claim: Claim,
    /// Of its checkpoints, and of those of the graphs inside.
    pub ids: Arc<Ids>,
    /// What a run inside another one has from it.
    pub inside: Option<Inside>,
    pub family: Arc<Family>,
    /// The names of the nodes around this graph; empty at the root.
    pub path: Arc<str>,
    pub labels: Labels,
    pub outlet: Arc<Outlet>,
    /// Of its nodes, and under an option of its writes, if there is a limit.
    pub turns: Option<Arc<Semaphore>>,
    /// Never held across an await.
    pub state: Mutex<RunState>,
}

pub(crate) struct RunState {
    pub checkpoint: Checkpoint,
    pub metadata: Metadata,
    pub channels: Channels,
    pub pending: Vec<PendingWrite>,
    /// Tasks whose pending writes were found stored, and not made by this run.
    pub found: BTreeSet<Arc<str>>,
    /// Tasks that may have pending writes of this run.
    pub written: BTreeSet<Arc<str>>,
    /// The tasks of the current super-step.
    pub tasks: IndexMap<Arc<str>, Task>,
    pub updated: Option<BTreeSet<Arc<str>>>,
    pub step: i64,
    pub stop: i64,
    /// Id of the checkpoint that the run started from; its rows exist already.
    pub loaded: Option<Arc<str>>,
    /// The checkpoint before the head, for those who watch.
    pub before_head: Option<Arc<str>>,
    /// What graphs inside this step's nodes are told: go on where they stood, or begin. `None` once
    /// the run has made a step.
    pub resuming: Option<bool>,
    /// What the run would give back if it ended here; `None` before anything was shown.
    pub output: Option<State>,
    /// Parent of the next put.
    pub head: Option<Arc<str>>,
    /// The next put may follow an older checkpoint than the thread's head.
    pub goes_back: bool,
    /// Channel versions at the previous put.
    pub stored_versions: ChannelVersions,
    pub puts: Puts,
    pub deltas: Deltas,
    /// Nodes that run as their own task.
    pub running: Running,
    /// What resolves when nodes that were cancelled, and runs inside them, are gone.
    pub leaving: Vec<oneshot::Receiver<()>>,
    /// Own-task nodes that ended and were not yet looked at by the loop.
    pub ended: Vec<(Arc<str>, Result<(), NodeError>)>,
    /// A task failed beside others and nothing took care of it: none of them starts any more.
    pub has_failed: bool,
    /// The first task that failed beside others and was taken care of.
    pub past_failure: Option<PastFailure>,
    /// The answer among the pending writes that is addressed to nobody in particular, until a task
    /// of this step takes it.
    pub answer: Answer,
    /// The pending writes were looked through for a used answer since this step was planned.
    pub is_answer_settled: bool,
    /// The run started from an explicitly named checkpoint and has made no step yet.
    pub is_replaying: bool,
    /// The run was dropped and its nodes are being cancelled; their end is recorded with the exit
    /// duties.
    pub is_leaving: bool,
    /// Exit duties were begun, or never will be: nothing that ends later is recorded.
    pub is_over: bool,
}

/// A place for an answer that is addressed to nobody: who takes it first has it.
pub(crate) type Answer = Arc<Mutex<Option<Value>>>;

/// A run inside a node of another run.
pub(crate) struct Inside {
    /// Ancestor namespaces, with the checkpoints that the nodes around started from.
    pub parents: BTreeMap<String, String>,
    /// That of the root: a graph that keeps nothing does not take it from those inside.
    pub saver: Option<Arc<dyn Saver>>,
    /// The answer that the node around may take.
    pub answer: Answer,
    /// The attempt of the node around, or of one further out, if it has a limit.
    pub timed: Option<Arc<TimedAttempt>>,
    /// Must the run go on where it stood?
    pub resuming: Option<bool>,
}

/// What a run and those inside it have in common.
#[derive(Default)]
pub(crate) struct Family {
    /// Answers by interrupt id, of the command that the root was started with.
    pub answers: Mutex<BTreeMap<String, Value>>,
    /// How the root was dropped, once it was.
    pub style: OnceLock<CancelStyle>,
    pub entered: Entered,
    /// Set when the root goes back in time: graphs inside look for what they were before it.
    pub replay: OnceLock<Replay>,
}

/// Going back to a checkpoint. The first visit of each graph inside starts from what it was then.
pub(crate) struct Replay {
    pub before: Arc<str>,
    pub visited: Mutex<BTreeSet<String>>,
}

impl Replay {
    pub fn is_first_visit(&self, namespace: &str) -> bool {
        self.visited.lock().unwrap().insert(namespace.to_owned())
    }
}

impl RunState {
    /// A step begins: an answer that is addressed to nobody is there for its tasks to take. A run
    /// inside another one has none of its own, and its tasks may take the other's.
    pub fn offer_answer(&mut self, around: Option<&Answer>) {
        let answer = self.pending.iter().find(|write| is_unaddressed_answer(write));
        self.answer = match (answer, around) {
            (None, Some(around)) => around.clone(),
            (answer, _) => Arc::new(Mutex::new(answer.map(|write| (*write.value).clone()))),
        };
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
    /// The timed attempt that this run is inside of.
    pub fn timed_around(&self) -> Option<&Arc<TimedAttempt>> {
        self.inside.as_ref()?.timed.as_ref()
    }

    /// A node of this run has started or ended: nodes around it go on.
    pub fn progress_around(&self) {
        if let Some(attempt) = self.timed_around() {
            attempt.progress_all();
        }
    }

    pub fn doors(&self) -> &Doors {
        &self.graph.doors
    }

    pub fn observe(&self, what: impl FnOnce() -> What) {
        let observer = &self.graph.doors.observer;
        if observer.enabled() {
            observer.observe(Event { labels: self.labels.clone(), what: what() });
        }
    }

    /// The keys that streams show: all of them, or of a graph inside another what it gives back.
    pub fn shown_keys(&self) -> &IndexSet<Arc<str>> {
        match self.only_output {
            true => &self.graph.output_keys,
            false => &self.graph.state_keys,
        }
    }

    pub fn place<'a>(&'a self, state: &RunState) -> Place<'a> {
        let progress = Progress { step: state.step, stop: state.stop };
        Place { graph: &self.graph, namespace: &self.key.namespace, progress }
    }

    /// The actor id of a task of this run.
    pub fn actor(&self, what: &str) -> String {
        let run = self.labels.run.as_deref().unwrap_or("-");
        format!("{run}/{what}")
    }
}
