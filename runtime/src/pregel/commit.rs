//! What is recorded when a task ends.

use std::sync::Arc;

use super::core::{RunCore, RunState};
use crate::checkpoint::{PendingWrite, codec, reserved};
use crate::doors::What;
use crate::graph::{Command, Interrupt, NodeError};
use crate::ordered::IndexMap;
use crate::value::{Shared, Value};

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
        interrupts: Vec<Interrupt>,
        resumes: Vec<(Arc<str>, Shared)>,
    },
    /// A graph inside was drained. Nothing of it is recorded here.
    Drained {
        reason: String,
    },
    /// Ended with a command for the graph around this one. Nothing of it is recorded here.
    Left(Box<Command>),
    Cancelled {
        resumes: Vec<(Arc<str>, Shared)>,
    },
}

impl RunCore {
    /// Records the end of a task: its writes become pending writes and go to the saver, and its
    /// update is queued for the stream.
    pub fn commit(self: &Arc<Self>, state: &mut RunState, id: &Arc<str>, end: TaskEnd) {
        let Some(task) = state.tasks.get_mut(id) else { return };
        let is_handled = matches!(end, TaskEnd::Failed { .. }) && self.is_handled(task);
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
                self.keep_writes(state, id, &writes);
                writes
            }
            TaskEnd::Failed { error, mut writes } => {
                let repr = error.repr();
                tell(What::NodeFailed { node, task: this, error: repr.as_str().into() });
                writes.push((reserved::ERROR.into(), Arc::new(Value::from(repr))));
                if is_handled {
                    let name = Arc::new(Value::from(&*task.node));
                    writes.push((reserved::ERROR_SOURCE_NODE.into(), name));
                    task.writes = writes.clone();
                }
                writes
            }
            TaskEnd::Cancelled { resumes: mut writes } => {
                tell(What::NodeCancelled { node, task: this });
                let repr = NodeError::failed("CancelledError", "").repr();
                writes.push((reserved::ERROR.into(), Arc::new(Value::from(repr))));
                writes
            }
            TaskEnd::Interrupted { interrupts, resumes } => {
                tell(What::NodeInterrupted { node, task: this });
                if interrupts.is_empty() {
                    // A graph inside has paused at a static interrupt.
                    return;
                }
                let written = |interrupt: Interrupt| {
                    codec::interrupt_value(interrupt.value, &interrupt.id)
                        .unwrap_or_else(|problem| Value::from(problem.to_string()))
                };
                let list = Value::Array(interrupts.into_iter().map(written).collect());
                let mut writes = vec![(Arc::from(reserved::INTERRUPT), Arc::new(list))];
                writes.extend(resumes);
                writes
            }
            TaskEnd::Drained { .. } => {
                tell(What::NodeInterrupted { node, task: this });
                return;
            }
            TaskEnd::Left(_) => {
                tell(What::NodeFinished { node, task: this });
                return;
            }
        };
        self.put_writes(state, id, writes);
        if is_handled {
            self.mark_failure(state);
        }
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
        // A task that has no rows yet need not be looked for among those of thousands.
        let has_rows = state.found.remove(id) | !state.written.insert(id.clone());
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
            if has_rows {
                state.pending.retain(|write| write.task != *id);
            }
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
}

/// Of writes that are all signals, the last of each channel counts, at the place of the first.
fn one_of_each_signal(writes: Vec<(Arc<str>, Shared)>) -> Vec<(Arc<str>, Shared)> {
    if writes.iter().any(|(channel, _)| reserved::fixed_index(channel).is_none()) {
        return writes;
    }
    let unique: IndexMap<Arc<str>, Shared> = writes.into_iter().collect();
    unique.into_iter().collect()
}
