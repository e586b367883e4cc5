//! What is recorded when a task ends.

use std::sync::Arc;

use indexmap::IndexMap;

use super::core::{RunCore, RunState};
use crate::checkpoint::{PendingWrite, codec, reserved, task_id};
use crate::doors::What;
use crate::graph::NodeError;
use crate::stream::{Chunk, StreamMode};
use crate::value::{self, Shared, Value};

/// How a task ended.
pub(crate) enum TaskEnd {
    Finished(Vec<(Arc<str>, Shared)>),
    /// `writes` is what it had written by then: the answers it used, and its update if it was an
    /// edge that failed.
    Failed {
        error: NodeError,
        writes: Vec<(Arc<str>, Shared)>,
    },
    /// Asked something; `resumes` are the records of the answers it has used so far.
    Interrupted {
        question: Value,
        resumes: Vec<(Arc<str>, Shared)>,
    },
    Cancelled {
        resumes: Vec<(Arc<str>, Shared)>,
    },
}

impl RunCore {
    /// Records the end of a task: its writes become pending writes and go to the saver, and its
    /// update is queued for the stream.
    pub fn commit(self: &Arc<Self>, state: &mut RunState, id: &Arc<str>, end: TaskEnd) {
        let Some(task) = state.tasks.get_mut(id) else { return };
        let (node, hidden) = (task.node.clone(), task.is_hidden());
        let tell = |what: What| {
            if !hidden {
                self.observe(|| what)
            }
        };
        let nil = || Arc::new(Value::Nil);
        let this = id.clone();
        let writes = match end {
            TaskEnd::Finished(mut writes) => {
                tell(What::NodeFinished { node, task: this });
                if writes.is_empty() {
                    writes.push((reserved::NO_WRITES.into(), nil()));
                }
                task.writes = writes.clone();
                writes
            }
            TaskEnd::Failed { error, mut writes } => {
                let repr = error.repr();
                tell(What::NodeFailed { node, task: this, error: repr.as_str().into() });
                writes.push((reserved::ERROR.into(), Arc::new(Value::from(repr))));
                writes
            }
            TaskEnd::Cancelled { resumes: mut writes } => {
                tell(What::NodeCancelled { node, task: this });
                let repr = NodeError::failed("CancelledError", "").repr();
                writes.push((reserved::ERROR.into(), Arc::new(Value::from(repr))));
                writes
            }
            TaskEnd::Interrupted { question, resumes } => {
                let interrupt_id = task_id::interrupt_id(&task_id::task_namespace("", &node, id));
                tell(What::NodeInterrupted { node, task: this });
                let interrupt = codec::interrupt_value(question, &interrupt_id)
                    .unwrap_or_else(|problem| Value::from(problem.to_string()));
                let list = Arc::new(Value::Array(vec![interrupt]));
                let mut writes = vec![(Arc::from(reserved::INTERRUPT), list)];
                writes.extend(resumes);
                writes
            }
        };
        self.put_writes(state, id, writes);
    }

    /// Keeps writes as pending, hands them to the saver, and shows them.
    pub fn put_writes(
        self: &Arc<Self>,
        state: &mut RunState,
        id: &Arc<str>,
        writes: Vec<(Arc<str>, Shared)>,
    ) {
        let writes = one_of_each_signal(writes);
        state.drop_used_answer();
        let to_save = if &**id == reserved::NULL_TASK {
            // Writes of no task add up; signals replace.
            state.pending.retain(|write| {
                &*write.task != reserved::NULL_TASK
                    || reserved::fixed_index(&write.channel).is_none()
            });
            let earlier = state.pending.iter().filter(|write| &*write.task == reserved::NULL_TASK);
            let earlier = earlier.map(|write| (write.channel.clone(), write.value.clone()));
            earlier.chain(writes.iter().cloned()).collect()
        } else {
            state.pending.retain(|write| write.task != *id);
            writes.clone()
        };
        state.pending.extend(writes.iter().map(|(channel, value)| PendingWrite {
            task: id.clone(),
            channel: channel.clone(),
            value: value.clone(),
        }));
        if self.config.durability != crate::profile::Durability::Exit {
            self.submit_writes(state, id, to_save);
        }
        self.show_writes(state, id, &writes, false);
    }

    /// Queues what the stream shows of a task's writes.
    pub fn show_writes(
        &self,
        state: &RunState,
        id: &str,
        writes: &[(Arc<str>, Shared)],
        cached: bool,
    ) {
        let Some(task) = state.tasks.get(id).filter(|task| !task.is_hidden()) else { return };
        let shows = |mode| self.outlet.wants(mode);
        match writes.first().map(|(channel, _)| &**channel) {
            Some(reserved::INTERRUPT) => {
                let interrupts = writes
                    .iter()
                    .filter(|(channel, _)| &**channel == reserved::INTERRUPT)
                    .flat_map(|(_, value)| value.as_array().cloned().unwrap_or_default());
                let interrupts = Value::Array(interrupts.collect());
                if shows(StreamMode::Updates) {
                    let data = value::map([(reserved::INTERRUPT, interrupts.clone())]);
                    self.outlet.queue(Chunk { mode: StreamMode::Updates, data });
                }
                if shows(StreamMode::Values) {
                    let mut data = self.graph.read_state(&state.channels).to_value();
                    if let Value::Map(entries) = &mut data {
                        entries.push((reserved::INTERRUPT.into(), interrupts));
                    }
                    self.outlet.queue(Chunk { mode: StreamMode::Values, data });
                }
            }
            Some(reserved::ERROR) | None => {}
            Some(_) if shows(StreamMode::Updates) => {
                let state_writes = writes
                    .iter()
                    .filter(|(channel, _)| self.graph.is_state_key(channel))
                    .map(|(channel, value)| (channel.to_string(), (**value).clone()));
                let update: Vec<_> = state_writes.collect();
                let update = if update.is_empty() { Value::Nil } else { value::map(update) };
                let mut data = vec![(task.node.to_string(), update)];
                if cached {
                    let mark = value::map([("cached", Value::Boolean(true))]);
                    data.push(("__metadata__".to_owned(), mark));
                }
                self.outlet.queue(Chunk { mode: StreamMode::Updates, data: value::map(data) });
            }
            Some(_) => {}
        }
    }

    pub fn show_values(&self, state: &RunState) {
        if self.outlet.wants(StreamMode::Values) {
            let data = self.graph.read_state(&state.channels).to_value();
            self.outlet.queue(Chunk { mode: StreamMode::Values, data });
        }
    }
}

/// Of writes that are all signals, the last of each channel counts, at the place of the first.
fn one_of_each_signal(writes: Vec<(Arc<str>, Shared)>) -> Vec<(Arc<str>, Shared)> {
    if writes.iter().any(|(channel, _)| reserved::fixed_index(channel).is_none()) {
        return writes;
    }
    let unique: IndexMap<Arc<str>, Shared> = writes.into_iter().collect();
    unique.into_iter().collect()
}
