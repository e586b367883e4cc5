//! Running one task: its attempts, and everything it writes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::command;
use super::commit::TaskEnd;
use super::core::{RunCore, RunState};
use super::task::Task;
use super::timed::within;
use crate::channels::Progress;
use crate::checkpoint::{PendingWrite, codec, reserved, task_id};
use crate::doors::{Operation, Point, What};
use crate::graph::{
    Command, Destination, END, Goto, NodeBody, NodeContext, NodeError, NodePlan, NodeScope,
    Resumes, RetryPolicy, TimedAttempt, Update, branch_channel,
};
use crate::profile::{UndeclaredKeys, UnknownTargets};
use crate::value::{Shared, Value};

type Writes = Vec<(Arc<str>, Shared)>;

impl RunCore {
    /// Runs the node, again if its policy says so, and works out everything it writes.
    pub(super) async fn run_task(self: &Arc<Self>, task: &Task) -> TaskEnd {
        let plan = &self.graph.nodes[&task.node];
        if matches!(plan.body, NodeBody::Start) {
            return match self.start_command() {
                Ok(command) => self.written(task, vec![], command),
                Err(error) => TaskEnd::Failed { error, writes: vec![] },
            };
        }
        let point = || Point {
            actor: self.labels.run.clone().unwrap_or_else(|| "-".into()),
            operation: Operation::NodeStart,
            key: task.node.clone(),
            id: task.id.clone(),
        };
        drop(self.doors().gate.pass(point).await);
        let scope = self.scope(task);
        loop {
            let attempt = scope.attempt.fetch_add(1, Ordering::Relaxed) + 1;
            self.observe(|| What::NodeEntered {
                node: task.node.clone(),
                task: task.id.clone(),
                checkpoint: scope.checkpoint.clone(),
            });
            self.family.entered.add(&self.path, &task.node);
            self.progress_around();
            let end = self.attempt(task, plan, &scope).await;
            self.progress_around();
            let TaskEnd::Failed { error, .. } = &end else { return end };
            let policy = plan.retry.iter().find(|policy| policy.covers(error));
            match policy.filter(|policy| attempt < policy.max_attempts) {
                None => return end,
                Some(policy) => self.doors().clock.sleep(self.wait(policy, attempt)).await,
            }
            scope.resumes.lock().unwrap().answered = 0;
        }
    }

    fn wait(&self, policy: &RetryPolicy, failed: u32) -> Duration {
        let jitter = match policy.jitter {
            true => (self.doors().entropy.u64("retry.jitter") >> 11) as f64 / (1u64 << 53) as f64,
            false => 0.0,
        };
        policy.interval(failed) + Duration::from_secs_f64(jitter)
    }

    async fn attempt(
        self: &Arc<Self>,
        task: &Task,
        plan: &NodePlan,
        scope: &Arc<NodeScope>,
    ) -> TaskEnd {
        let result = match &plan.timeout {
            None => self.run_body(task, plan, scope, None).await,
            Some(policy) => {
                let attempt = TimedAttempt::new(policy, self.timed_around().cloned());
                let attempt = Arc::new(attempt);
                let running = self.run_body(task, plan, scope, Some(&attempt));
                let clock = &*self.doors().clock;
                match within(clock, &task.node, policy, &attempt, running).await {
                    Ok(result) => result,
                    // What it has written by then does not count, answers included.
                    Err(error) => return TaskEnd::Failed { error, writes: vec![] },
                }
            }
        };
        match result {
            Ok(command) => self.written(task, scope.resume_records(), command),
            // A graph inside ended with a command for this one: the node's own.
            Err(NodeError::Command(command)) => {
                let command = Command { graph: Destination::Current, ..*command };
                self.written(task, scope.resume_records(), command)
            }
            Err(NodeError::Interrupted(interrupts)) => {
                TaskEnd::Interrupted { interrupts, resumes: scope.resume_records() }
            }
            Err(NodeError::Drained { reason }) => TaskEnd::Drained { reason },
            Err(error) => TaskEnd::Failed { error, writes: scope.resume_records() },
        }
    }

    async fn run_body(
        self: &Arc<Self>,
        task: &Task,
        plan: &NodePlan,
        scope: &Arc<NodeScope>,
        timed: Option<&Arc<TimedAttempt>>,
    ) -> Result<Command, NodeError> {
        match &plan.body {
            NodeBody::Start => Ok(Command::new()),
            NodeBody::Function(function) => {
                let context = NodeContext { scope: scope.clone(), timed: timed.cloned() };
                function(task.input.clone(), context).await
            }
            NodeBody::Subgraph(graph) => {
                let output = self.run_inside(graph, task.input.to_value(), scope, timed).await?;
                of_output(&output)
            }
        }
    }

    fn scope(self: &Arc<Self>, task: &Task) -> Arc<NodeScope> {
        let mut state = self.state.lock().unwrap();
        let namespace = task.namespace(&self.key.namespace);
        let resumes = self.resumes_of(&state, task, &namespace);
        let scope = Arc::new(NodeScope {
            node: task.node.clone(),
            task: task.id.clone(),
            checkpoint: state.checkpoint.id.clone(),
            namespace: namespace.into(),
            triggers: task.triggers.clone(),
            progress: Progress { step: state.step, stop: state.stop },
            labels: self.labels.clone(),
            configurable: self.config.configurable.clone(),
            context: self.config.context.clone(),
            doors: self.doors().clone(),
            outlet: match &task.handles {
                None => self.outlet.clone(),
                Some(handled) => Arc::new(self.outlet.under(&handled.namespace)),
            },
            handles: task.handles.clone(),
            around: self.timed_around().cloned(),
            resumes: Mutex::new(resumes),
            core: Arc::downgrade(self),
            attempt: AtomicU32::new(0),
            subgraphs: AtomicU32::new(0),
        });
        if let Some(running) = state.running.get_mut(&task.id) {
            running.scope = Some(scope.clone());
        }
        scope
    }

    /// The answers that `task` has: of earlier resumes, by interrupt id, and the one that anybody may
    /// take.
    fn resumes_of(&self, state: &RunState, task: &Task, namespace: &str) -> Resumes {
        let is_recorded =
            |write: &&PendingWrite| write.task == task.id && &*write.channel == reserved::RESUME;
        // Only what was found has answers, and no fan of tasks looks through all of its own rows.
        let recorded = match state.found.contains(&task.id) {
            true => state.pending.iter().find(is_recorded),
            false => None,
        };
        let mut answers = match recorded.map(|write| &*write.value) {
            None => vec![],
            Some(Value::Array(answers)) => answers.clone(),
            Some(one) => vec![one.clone()],
        };
        if !state.pending.is_empty() {
            let by_id = self.family.answers.lock().unwrap();
            answers.extend(by_id.get(&task_id::interrupt_id(namespace)).cloned());
        }
        Resumes { answers, unaddressed: state.answer.clone(), ..Resumes::default() }
    }

    /// What `__start__` writes: the declared keys of the input, or what a command says.
    fn start_command(&self) -> Result<Command, NodeError> {
        let input = self.state.lock().unwrap().channels[reserved::START].get();
        let Some(input) = input else { return Ok(Command::new()) };
        if let Some(command) = command::read_command(&input) {
            return Ok(command);
        }
        of_output(&input)
    }

    /// Everything that a task writes: its answers, its update, where its command goes, its edges.
    fn written(&self, task: &Task, resumes: Writes, command: Command) -> TaskEnd {
        if command.graph == Destination::Parent {
            return TaskEnd::Left(Box::new(command));
        }
        let mut writes = resumes;
        match self.writes_of(&task.node, command) {
            Ok(more) => {
                writes.extend(more);
                TaskEnd::Finished(writes)
            }
            Err((more, error)) => {
                writes.extend(more);
                TaskEnd::Failed { error, writes }
            }
        }
    }

    /// What `node` writes by returning `command`. An error comes with what was written before it.
    pub(super) fn writes_of(
        &self,
        node: &str,
        command: Command,
    ) -> Result<Writes, (Writes, NodeError)> {
        let plan = &self.graph.nodes[node];
        let update = self.declared(plan, command.update).map_err(|error| (vec![], error))?;
        let mut writes = update.clone();
        match self.directions(command.goto, Value::Nil) {
            Ok(more) => writes.extend(more),
            Err(error) => return Err((writes, error)),
        }
        let nil = Arc::new(Value::Nil);
        let name = Arc::new(Value::from(node));
        writes.extend(plan.goes_to.iter().map(|channel| (channel.clone(), nil.clone())));
        writes.extend(plan.joins.iter().map(|channel| (channel.clone(), name.clone())));
        match self.routed(plan, &update) {
            Ok(more) => writes.extend(more),
            Err(error) => return Err((writes, error)),
        }
        Ok(writes)
    }

    fn declared(&self, plan: &NodePlan, update: Update) -> Result<Writes, NodeError> {
        if let Some(problem) = update.problem {
            return Err(problem.into());
        }
        let keys = match plan.body {
            NodeBody::Start => &self.graph.input_keys,
            _ => &self.graph.state_keys,
        };
        let mut writes = Vec::with_capacity(update.writes.len());
        for (key, value) in update.writes {
            if keys.contains(&key) {
                writes.push((key, value));
            } else if self.graph.options.undeclared_keys == UndeclaredKeys::Rejected {
                let message = format!("the graph declares no state key {key:?}");
                return Err(NodeError::failed("InvalidUpdateError", message));
            }
        }
        Ok(writes)
    }

    /// The writes by which a step goes somewhere. END is nowhere. `trigger` is what a node that is
    /// gone to finds in its trigger channel.
    pub(super) fn directions(&self, goto: Vec<Goto>, trigger: Value) -> Result<Writes, NodeError> {
        let trigger = Arc::new(trigger);
        let mut writes = Vec::with_capacity(goto.len());
        for to in goto {
            let node = match &to {
                Goto::Node(node) if &**node == END => {
                    // A node that goes to the end goes nowhere; a caller who does leaves a row, as
                    // in LangGraph, for a channel that there is not.
                    if !trigger.is_nil() {
                        let nowhere = branch_channel(reserved::END);
                        writes.push((nowhere.into(), trigger.clone()));
                    }
                    continue;
                }
                Goto::Node(node) => node,
                Goto::Send(send) => &send.node,
            };
            if !self.graph.nodes.contains_key(node) {
                if self.graph.options.unknown_targets == UnknownTargets::Ignored {
                    tracing::warn!(node = &**node, "there is no such node to go to");
                } else {
                    let message = format!("there is no node {node:?} to go to");
                    return Err(NodeError::failed("InvalidUpdateError", message));
                }
            }
            writes.push(match to {
                Goto::Node(node) => (branch_channel(&node).into(), trigger.clone()),
                Goto::Send(send) => {
                    let argument = Arc::unwrap_or_clone(send.argument);
                    let packet = codec::send_value(&send.node, argument)
                        .map_err(|error| NodeError::failed("TypeError", error))?;
                    (reserved::TASKS.into(), Arc::new(packet))
                }
            });
        }
        Ok(writes)
    }

    /// Where a node's routers go, in order.
    fn routed(&self, plan: &NodePlan, update: &[(Arc<str>, Shared)]) -> Result<Writes, NodeError> {
        if plan.branches.is_empty() {
            return Ok(vec![]);
        }
        let invalid = |message: String| NodeError::failed("InvalidUpdateError", message);
        let after = {
            let state = self.state.lock().unwrap();
            self.graph.read_after(plan, &state.channels, update)
        };
        let after = after.map_err(|(key, error)| invalid(format!("state key {key:?} {error}")))?;
        let mut chosen = Vec::new();
        for branch in &plan.branches {
            for target in (branch.router)(&after)? {
                if let (Goto::Node(node), Some(targets)) = (&target, &branch.targets)
                    && !targets.iter().any(|target| **target == **node)
                {
                    let problem = "which it does not name";
                    return Err(invalid(format!("the branch goes to {node:?}, {problem}")));
                }
                chosen.push(target);
            }
        }
        self.directions(chosen, Value::Nil)
    }
}

/// What a subgraph ends with, or an input brings, as an update.
fn of_output(output: &Value) -> Result<Command, NodeError> {
    if output.is_nil() {
        return Ok(Command::new());
    }
    let update = Update::from_map(output).map_err(|other| {
        NodeError::failed("InvalidUpdateError", format!("Expected dict, got {other}"))
    })?;
    Ok(Command::new().update(update))
}
