//! Running one task, and running the tasks of a step beside each other.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::commit::TaskEnd;
use super::core::{RunCore, RunState};
use super::exit::RunningNode;
use super::task::Task;
use super::{RunError, command, commit};
use crate::checkpoint::reserved;
use crate::doors::{Operation, Point, What};
use crate::graph::{
    NodeContext, NodeError, NodePlan, NodeScope, Resumes, State, Update, branch_channel,
};
use crate::profile::UndeclaredKeys;
use crate::stream::StreamMode;
use crate::value::{Shared, Value};

impl RunCore {
    /// Do nodes run as their own tasks even when there is one? So it is when chunks must be able
    /// to leave while they run.
    fn is_eager(&self) -> bool {
        self.outlet.wants(StreamMode::Custom) || self.outlet.wants(StreamMode::Messages)
    }

    /// Runs the unfinished tasks of this step and yields chunks as they come.
    pub async fn execute(self: &Arc<Self>) -> Result<(), RunError> {
        let todo: Vec<Task> = {
            let state = self.state.lock().unwrap();
            state.tasks.values().filter(|task| task.writes.is_empty()).cloned().collect()
        };
        self.outlet.yield_queued().await;
        match todo.as_slice() {
            [] => Ok(()),
            [one] if !self.is_eager() => self.execute_inline(one).await,
            _ => self.execute_beside(todo).await,
        }
    }

    /// One task, polled by the consumer itself: a cancelled consumer cancels it on the spot.
    async fn execute_inline(self: &Arc<Self>, task: &Task) -> Result<(), RunError> {
        let guard = InlineGuard { core: self, task };
        let end = self.run_task(task).await;
        std::mem::forget(guard);
        let outcome = outcome(&end);
        self.commit(&mut self.state.lock().unwrap(), &task.id, end);
        outcome.map_err(|error| RunError::Node { node: task.node.to_string(), error })
    }

    /// Every task on its own. The first failure cancels the others; an interrupt lets them finish.
    async fn execute_beside(self: &Arc<Self>, todo: Vec<Task>) -> Result<(), RunError> {
        let mut waiting = todo.len();
        let names: Vec<_> = todo.iter().map(|t| (t.id.clone(), t.node.clone())).collect();
        for task in todo {
            self.start_beside(task);
        }
        let mut failure: Option<(Arc<str>, NodeError)> = None;
        let mut interrupt: Option<(Arc<str>, NodeError)> = None;
        while waiting > 0 {
            let ended = self.next_ended().await;
            for (id, outcome) in ended {
                waiting -= 1;
                let node = || {
                    let name = names.iter().find(|(task, _)| *task == id);
                    name.map_or_else(|| id.clone(), |(_, node)| node.clone())
                };
                match outcome {
                    Ok(()) => {}
                    Err(error @ NodeError::Interrupted(_)) => {
                        interrupt.get_or_insert((node(), error));
                    }
                    Err(error) => {
                        failure.get_or_insert((node(), error));
                    }
                }
            }
            if failure.is_some() {
                break;
            }
            self.outlet.yield_queued().await;
        }
        self.outlet.yield_queued().await;
        match failure.or(interrupt) {
            None => Ok(()),
            Some((node, error)) => Err(RunError::Node { node: node.to_string(), error }),
        }
    }

    fn start_beside(self: &Arc<Self>, task: Task) {
        let id = task.id.clone();
        let node = task.node.clone();
        let guard = BesideGuard { core: self.clone(), task: id.clone(), armed: true };
        let core = self.clone();
        // The guard is made outside, so that it works for a task that is never polled.
        let run = async move {
            let mut guard = guard;
            let end = core.run_task(&task).await;
            guard.armed = false;
            core.end_beside(&task.id, end);
        };
        let mut state = self.state.lock().unwrap();
        let handle = self.doors().executor.spawn(&self.actor(&format!("node/{node}")), run);
        state.running.insert(id, RunningNode { node, aborter: handle.aborter(), scope: None });
    }

    /// A task on its own has ended. When its run is over, nobody records it.
    fn end_beside(self: &Arc<Self>, id: &Arc<str>, end: commit::TaskEnd) {
        let mut state = self.state.lock().unwrap();
        let known = state.running.shift_remove(id).is_some();
        if state.is_over || !known {
            return;
        }
        let outcome = outcome(&end);
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
            match !ended.is_empty() || (self.is_eager() && self.outlet.has_queued()) {
                true => Poll::Ready(ended),
                false => Poll::Pending,
            }
        })
        .await
    }

    /// Runs the node and works out everything it writes.
    async fn run_task(self: &Arc<Self>, task: &Task) -> TaskEnd {
        let plan = &self.graph.nodes[&task.node];
        let Some(run) = &plan.run else {
            return match self.start_writes() {
                Ok(writes) => self.with_edges(task, vec![], writes),
                Err(error) => TaskEnd::Failed { error, writes: vec![] },
            };
        };
        let point = || Point {
            actor: self.labels.run.clone().unwrap_or_else(|| "-".into()),
            operation: Operation::NodeStart,
            key: task.node.clone(),
            id: task.id.clone(),
        };
        drop(self.doors().gate.pass(point).await);
        let scope = self.scope(task);
        self.observe(|| What::NodeEntered {
            node: task.node.clone(),
            task: task.id.clone(),
            checkpoint: scope.checkpoint.clone(),
        });
        let context = NodeContext { scope: scope.clone() };
        let update = match run(task.input.clone(), context).await {
            Ok(update) => update,
            Err(NodeError::Interrupted(question)) => {
                return TaskEnd::Interrupted { question, resumes: scope.resume_records() };
            }
            Err(error) => return TaskEnd::Failed { error, writes: scope.resume_records() },
        };
        match self.declared(update) {
            Ok(writes) => self.with_edges(task, scope.resume_records(), writes),
            Err(error) => TaskEnd::Failed { error, writes: scope.resume_records() },
        }
    }

    fn scope(&self, task: &Task) -> Arc<NodeScope> {
        let mut state = self.state.lock().unwrap();
        let resumes = resumes_of(&state, task);
        let scope = Arc::new(NodeScope {
            node: task.node.clone(),
            task: task.id.clone(),
            checkpoint: state.checkpoint.id.clone(),
            step: state.step,
            labels: self.labels.clone(),
            configurable: self.config.configurable.clone(),
            doors: self.doors().clone(),
            outlet: self.outlet.clone(),
            resumes: Mutex::new(resumes),
        });
        if let Some(running) = state.running.get_mut(&task.id) {
            running.scope = Some(scope.clone());
        }
        scope
    }

    /// What `__start__` writes: the declared keys of the input.
    fn start_writes(&self) -> Result<Vec<(Arc<str>, Shared)>, NodeError> {
        let input = self.state.lock().unwrap().channels[reserved::START].get();
        let Some(input) = input else { return Ok(vec![]) };
        if command::is_command(&input) {
            return Ok(vec![]);
        }
        let Value::Map(entries) = &*input else {
            let message = format!("Expected dict, got {input}");
            return Err(NodeError::failed("InvalidUpdateError", message));
        };
        let mut update = Update::new();
        for (key, value) in entries {
            match key.as_str() {
                Some(key) => update = update.set_value(key, value.clone()),
                None => update = update.set_value(&key.to_string(), value.clone()),
            }
        }
        self.declared(update)
    }

    fn declared(&self, update: Update) -> Result<Vec<(Arc<str>, Shared)>, NodeError> {
        if let Some(problem) = update.problem {
            return Err(problem.into());
        }
        let mut writes = Vec::with_capacity(update.writes.len());
        for (key, value) in update.writes {
            if self.graph.is_state_key(&key) {
                writes.push((key, value));
            } else if self.graph.options.undeclared_keys == UndeclaredKeys::Rejected {
                let message = format!("the graph declares no state key {key:?}");
                return Err(NodeError::failed("InvalidUpdateError", message));
            }
        }
        Ok(writes)
    }

    /// Adds what the node's edges write: plain edges, joins, then routers, which see the state after
    /// the node's own writes.
    fn with_edges(
        &self,
        task: &Task,
        resumes: Vec<(Arc<str>, Shared)>,
        update: Vec<(Arc<str>, Shared)>,
    ) -> TaskEnd {
        let plan = &self.graph.nodes[&task.node];
        let nil = Arc::new(Value::Nil);
        let name = Arc::new(Value::from(&*task.node));
        let mut writes = resumes;
        writes.extend(update.iter().cloned());
        writes.extend(plan.goes_to.iter().map(|channel| (channel.clone(), nil.clone())));
        writes.extend(plan.joins.iter().map(|channel| (channel.clone(), name.clone())));
        match self.routed(plan, &update) {
            Ok(targets) => {
                let channel = |target: String| (branch_channel(&target).into(), nil.clone());
                writes.extend(targets.into_iter().map(channel));
                TaskEnd::Finished(writes)
            }
            Err(error) => TaskEnd::Failed { error, writes },
        }
    }

    /// The nodes that a node's routers name, in order.
    fn routed(
        &self,
        plan: &NodePlan,
        update: &[(Arc<str>, Shared)],
    ) -> Result<Vec<String>, NodeError> {
        if plan.branches.is_empty() {
            return Ok(vec![]);
        }
        let invalid = |message: String| NodeError::failed("InvalidUpdateError", message);
        let after = {
            let state = self.state.lock().unwrap();
            self.graph.read_after(&state.channels, update)
        };
        let after: State =
            after.map_err(|(key, error)| invalid(format!("state key {key:?} {error}")))?;
        let mut chosen = Vec::new();
        for branch in &plan.branches {
            for target in (branch.router)(&after)? {
                if !branch.targets.contains(&target) {
                    let problem = "which it does not name";
                    return Err(invalid(format!("the branch goes to {target:?}, {problem}")));
                }
                if target != crate::graph::END {
                    chosen.push(target);
                }
            }
        }
        Ok(chosen)
    }
}

/// The answers that `task` has, of earlier resumes and of this one.
fn resumes_of(state: &RunState, task: &Task) -> Resumes {
    let recorded = state
        .pending
        .iter()
        .find(|write| write.task == task.id && &*write.channel == reserved::RESUME)
        .and_then(|write| write.value.as_array().cloned());
    let answers = recorded.unwrap_or_default();
    let unaddressed = state.answer.clone();
    Resumes { answers, unaddressed, ..Resumes::default() }
}

fn outcome(end: &TaskEnd) -> Result<(), NodeError> {
    match end {
        TaskEnd::Finished(_) => Ok(()),
        TaskEnd::Failed { error, .. } => Err(error.clone()),
        TaskEnd::Interrupted { question, .. } => Err(NodeError::Interrupted(question.clone())),
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
}

impl Drop for BesideGuard {
    fn drop(&mut self) {
        if self.armed {
            // Aborted nodes were taken off the list before, and are not looked up here.
            let error = NodeError::failed("RuntimeError", "the node's task died");
            self.core.end_beside(&self.task, TaskEnd::Failed { error, writes: vec![] });
        }
    }
}
