//! Error handlers: the task that runs in place of a failed one, in the same super-step.
//!
//! A node with a handler that has failed, retries included, leaves its error and the mark
//! `__error_source_node__` beside it. Once these are stored, the handler runs with the failed task's
//! input. What it writes is its own: the failed node's edges are not followed. A run that finds the
//! mark among the pending writes of a checkpoint runs the handler and not the node.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::RunError;
use super::core::{RunCore, RunState};
use super::plan::restore_finished;
use super::run::End;
use super::task::{Handled, Task};
use crate::checkpoint::{id, reserved, task_id};
use crate::graph::{NodeError, NodeFailure};
use crate::profile::{FinishedSiblings, HandledFailures};
use crate::value::Value;

/// A failure that a handler took care of, in a task that ran beside others.
pub(crate) struct PastFailure {
    /// When the task was started, in the order of the whole run.
    started: (i64, usize),
    node: Arc<str>,
    error: NodeError,
}

impl RunCore {
    /// Does a handler take care of a failure of `task`?
    pub(super) fn is_handled(&self, task: &Task) -> bool {
        task.handles.is_none() && self.graph.nodes[&task.node].handler.is_some()
    }

    /// The handler's task for the failed task with this id, if its node has a handler. Waits until
    /// the failure is stored.
    pub(super) async fn begin_handler(
        &self,
        failed: &Arc<str>,
        error: &NodeError,
    ) -> Result<Option<Task>, RunError> {
        if !matches!(error, NodeError::Failed { .. }) {
            return Ok(None);
        }
        {
            let state = self.state.lock().unwrap();
            if !state.tasks.get(failed).is_some_and(|task| self.is_handled(task)) {
                return Ok(None);
            }
        }
        self.await_failures().await?;
        let mut state = self.state.lock().unwrap();
        let task = self.handler_of(&state, failed, error.clone());
        if let Some(task) = &task {
            state.tasks.insert(task.id.clone(), task.clone());
        }
        Ok(task)
    }

    fn handler_of(&self, state: &RunState, failed: &Arc<str>, error: NodeError) -> Option<Task> {
        let failed = state.tasks.get(failed)?;
        let node = self.graph.nodes[&failed.node].handler.clone()?;
        let namespace: Arc<str> = failed.namespace(&self.key.namespace).into();
        let checkpoint = id::uuid6_bytes(&state.checkpoint.id).unwrap_or_default();
        let failure = NodeFailure { node: failed.node.clone(), error };
        Some(Task {
            id: task_id::handler(&checkpoint, &namespace, state.step, &node, &failed.id),
            node,
            origin: failed.origin.clone(),
            triggers: vec![reserved::PUSH.into()],
            input: failed.input.clone(),
            writes: vec![],
            handles: Some(Arc::new(Handled { failure, namespace })),
        })
    }

    /// Tasks that failed under this checkpoint before and have a handler are not run again; their
    /// handlers are.
    pub(super) fn resume_handlers(&self, state: &mut RunState) {
        let marked = state
            .pending
            .iter()
            .filter(|write| &*write.channel == reserved::ERROR_SOURCE_NODE)
            .map(|write| write.task.clone());
        let mut handlers = BTreeSet::new();
        for failed in marked.collect::<Vec<_>>() {
            let is_error = |write: &&crate::checkpoint::PendingWrite| {
                write.task == failed && &*write.channel == reserved::ERROR
            };
            let Some(error) = state.pending.iter().find(is_error).map(|write| write.value.clone())
            else {
                continue;
            };
            let told = match &*error {
                Value::String(repr) => NodeError::from_repr(repr.as_str().unwrap_or_default()),
                other => NodeError::failed("Exception", other),
            };
            let Some(handler) = self.handler_of(state, &failed, told) else { continue };
            state.tasks[&failed].writes.push((reserved::ERROR.into(), error));
            handlers.insert(handler.id.clone());
            state.tasks.insert(handler.id.clone(), handler);
        }
        if self.graph.options.finished_siblings == FinishedSiblings::Kept && !handlers.is_empty() {
            let theirs = state.pending.iter().filter(|write| handlers.contains(&write.task));
            let theirs: Vec<_> = theirs.cloned().collect();
            restore_finished(&mut state.tasks, &theirs);
        }
    }

    /// Remembers a failure for [`RunCore::past_failure`]. `place` is that of the task in its step.
    pub(super) fn remember_failure(&self, place: usize, node: &Arc<str>, error: NodeError) {
        let mut state = self.state.lock().unwrap();
        let started = (state.step, place);
        if state.past_failure.as_ref().is_none_or(|first| started < first.started) {
            let failure = PastFailure { started, node: node.clone(), error };
            state.past_failure = Some(failure);
        }
    }

    /// Under the option that keeps this hazard: the failure that a run which came to `end` is
    /// reported with, although a handler took care of it.
    pub(super) fn past_failure(&self, end: End) -> Option<RunError> {
        let is_kept = self.graph.options.handled_failures == HandledFailures::RaisedAtEnd;
        let is_pause = matches!(end, End::Paused | End::Asked);
        // A pause inside another run ends as an error there, and one is enough.
        if !is_kept || (is_pause && self.inside.is_some()) {
            return None;
        }
        let failure = self.state.lock().unwrap().past_failure.take()?;
        Some(RunError::Node { node: failure.node.to_string(), error: failure.error })
    }
}
