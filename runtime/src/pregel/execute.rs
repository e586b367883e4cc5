//! Running the tasks of a step beside each other.

use std::sync::Arc;
use std::task::Poll;

use super::RunError;
use super::commit::TaskEnd;
use super::core::RunCore;
use super::running::RunningNode;
use super::task::Task;
use crate::checkpoint::PendingWrite;
use crate::doors::{What, one_turn};
use crate::graph::{Interrupt, NodeError};
use crate::ordered::IndexMap;
use crate::profile::PendingList;
use crate::stream::StreamMode;

impl RunCore {
    /// Runs the unfinished tasks of this step and yields chunks as they come.
    pub async fn execute(self: &Arc<Self>) -> Result<(), RunError> {
        let todo: Vec<Task> = {
            let state = self.state.lock().unwrap();
            state.tasks.values().filter(|task| task.writes.is_empty()).cloned().collect()
        };
        self.outlet.yield_queued().await;
        match todo.as_slice() {
            [] => {
                self.give_puts_a_turn().await;
                Ok(())
            }
            [one] if !self.outlet.is_eager() => self.execute_inline(one).await,
            _ => self.execute_beside(todo).await,
        }
    }

    /// One task, polled by the consumer itself: a cancelled consumer cancels it on the spot.
    async fn execute_inline(self: &Arc<Self>, task: &Task) -> Result<(), RunError> {
        self.give_puts_a_turn().await;
        let guard = InlineGuard { core: self, task };
        let end = self.run_task(task).await;
        std::mem::forget(guard);
        let outcome = outcome(&end);
        self.commit(&mut self.state.lock().unwrap(), &task.id, end);
        if let Err(error) = &outcome
            && let Some(handler) = self.begin_handler(&task.id, error).await?
        {
            return self.execute_beside(vec![handler]).await;
        }
        outcome.map_err(|error| RunError::Node { node: task.node.to_string(), error })
    }

    /// Every task on its own. The first failure that no handler takes care of cancels the others; an
    /// interrupt, or a command for the graph around, lets them finish.
    async fn execute_beside(self: &Arc<Self>, todo: Vec<Task>) -> Result<(), RunError> {
        let mut names: IndexMap<Arc<str>, Arc<str>> =
            todo.iter().map(|task| (task.id.clone(), task.node.clone())).collect();
        for task in todo {
            self.start_beside(task);
        }
        let mut outcomes: Vec<Option<Result<(), NodeError>>> = vec![None; names.len()];
        let mut waiting = names.len();
        let mut has_failed = false;
        while !has_failed && waiting > 0 {
            for (id, outcome) in self.next_ended().await {
                let Some(place) = names.get_index_of(&id) else { continue };
                if let Err(error) = &outcome
                    && let Some(handler) = self.begin_handler(&id, error).await?
                {
                    // The handler is waited for in place of the node.
                    self.remember_failure(place, &names[place], error.clone());
                    outcomes[place] = Some(Ok(()));
                    names.insert(handler.id.clone(), handler.node.clone());
                    outcomes.push(None);
                    self.start_beside(handler);
                    continue;
                }
                has_failed |= matches!(&outcome, Err(NodeError::Failed { .. }));
                if outcomes[place].is_none() {
                    waiting -= 1;
                    outcomes[place] = Some(outcome);
                }
            }
            if !has_failed {
                self.outlet.yield_queued().await;
            }
        }
        self.outlet.yield_queued().await;
        let ends = names.into_values().zip(outcomes);
        match worst(ends.filter_map(|(node, outcome)| Some((node, outcome?.err()?)))) {
            None => Ok(()),
            Some((node, error)) => Err(RunError::Node { node: node.to_string(), error }),
        }
    }

    fn start_beside(self: &Arc<Self>, task: Task) {
        let id = task.id.clone();
        let node = task.node.clone();
        let (alive, gone) = futures::channel::oneshot::channel::<()>();
        let guard = BesideGuard { core: self.clone(), task: id.clone(), armed: true, alive };
        let core = self.clone();
        let turn = self.queue_for_turn();
        // The guard is made outside, so that it works for a task that is never polled.
        let run = async move {
            let mut guard = guard;
            let turn = turn.await;
            if turn.is_some() && core.state.lock().unwrap().has_failed {
                // It will be cancelled.
                std::future::pending::<()>().await;
            }
            let end = core.run_task(&task).await;
            if core.outlet.wants(StreamMode::Custom) && !task.is_hidden() {
                // What others emit at the same moment is shown first, as in LangGraph, where the end
                // of a task takes more turns of its loop than an emission.
                one_turn().await;
            }
            let read = core.read_pending_list().await;
            guard.armed = false;
            core.end_beside(&task.id, end, read);
            drop(turn);
        };
        let mut state = self.state.lock().unwrap();
        let handle = self.doors().executor.spawn(&self.actor(&format!("node/{node}")), run);
        let running = RunningNode { node, aborter: handle.aborter(), scope: None, gone };
        state.running.insert(id, running);
    }

    /// Under the option that keeps this hazard: the pending writes as a task that has ended read
    /// them, a turn before it adds its own.
    async fn read_pending_list(&self) -> Option<Vec<PendingWrite>> {
        if self.graph.options.pending_list == PendingList::OneByOne {
            return None;
        }
        let read = self.state.lock().unwrap().pending.clone();
        one_turn().await;
        Some(read)
    }

    /// A task on its own has ended. When its run is over, nobody records it.
    fn end_beside(self: &Arc<Self>, id: &Arc<str>, end: TaskEnd, read: Option<Vec<PendingWrite>>) {
        let mut state = self.state.lock().unwrap();
        if state.is_leaving || state.is_over || state.running.remove(id).is_none() {
            return;
        }
        if let Some(read) = read {
            state.pending = read;
        }
        let outcome = outcome(&end);
        if matches!(outcome, Err(NodeError::Failed { .. })) {
            let is_handled = state.tasks.get(id).is_some_and(|task| self.is_handled(task));
            state.has_failed |= !is_handled;
        }
        self.commit(&mut state, id, end);
        state.ended.push((id.clone(), outcome));
        drop(state);
        self.outlet.wake_loop();
    }

    /// Waits until a task has ended or, in eager modes, a chunk is queued.
    async fn next_ended(&self) -> Vec<(Arc<str>, Result<(), NodeError>)> {
        std::future::poll_fn(|cx| {
            self.outlet.watch(cx);
            let ended = std::mem::take(&mut self.state.lock().unwrap().ended);
            match !ended.is_empty() || (self.outlet.is_eager() && self.outlet.has_queued()) {
                true => Poll::Ready(ended),
                false => Poll::Pending,
            }
        })
        .await
    }
}

/// Of several ends, the one that the run ends with: a failure before a command or a drain, those
/// before interrupts, and those all together, in the order of their tasks.
fn worst(ends: impl Iterator<Item = (Arc<str>, NodeError)>) -> Option<(Arc<str>, NodeError)> {
    let mut command = None;
    let mut paused: Option<(Arc<str>, Vec<Interrupt>)> = None;
    for (node, error) in ends {
        match error {
            NodeError::Failed { .. } => return Some((node, error)),
            NodeError::Command(_) | NodeError::Drained { .. } => {
                command.get_or_insert((node, error));
            }
            NodeError::Interrupted(more) => {
                paused.get_or_insert((node, vec![])).1.extend(more);
            }
        }
    }
    command.or(paused.map(|(node, interrupts)| (node, NodeError::Interrupted(interrupts))))
}

fn outcome(end: &TaskEnd) -> Result<(), NodeError> {
    match end {
        TaskEnd::Finished(_) => Ok(()),
        TaskEnd::Failed { error, .. } => Err(error.clone()),
        TaskEnd::Interrupted { interrupts, .. } => Err(NodeError::Interrupted(interrupts.clone())),
        TaskEnd::Drained { reason } => Err(NodeError::Drained { reason: reason.clone() }),
        TaskEnd::Left(command) => Err(NodeError::Command(command.clone())),
        TaskEnd::Cancelled { .. } => Err(NodeError::failed("CancelledError", "")),
    }
}

/// Tells that a node polled by the consumer was cut off with it.
struct InlineGuard<'a> {
    core: &'a Arc<RunCore>,
    task: &'a Task,
}

impl Drop for InlineGuard<'_> {
    fn drop(&mut self) {
        if !self.task.is_hidden() {
            let (node, task) = (self.task.node.clone(), self.task.id.clone());
            self.core.observe(|| What::NodeCancelled { node, task });
        }
    }
}

/// Notices a node whose task died without an end: it panicked.
struct BesideGuard {
    core: Arc<RunCore>,
    task: Arc<str>,
    armed: bool,
    /// Gone when everything of the task is gone.
    #[allow(dead_code)]
    alive: futures::channel::oneshot::Sender<()>,
}

impl Drop for BesideGuard {
    fn drop(&mut self) {
        if self.armed {
            // Aborted nodes were taken off the list before, and are not looked up here.
            let error = NodeError::failed("RuntimeError", "the node's task died");
            self.core.end_beside(&self.task, TaskEnd::Failed { error, writes: vec![] }, None);
        }
    }
}
