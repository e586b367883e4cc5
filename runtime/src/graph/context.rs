use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::{CompiledGraph, Interrupt, NodeError, NodeFailure, TimedAttempt};
use crate::channels::{Managed, Progress};
use crate::checkpoint::{reserved, task_id};
use crate::doors::{Doors, Labels, Operation, Point};
use crate::pregel::{Handled, RunCore};
use crate::stream::{Outlet, StreamMode};
use crate::value::{self, Shared, Value};

/// What a running node knows about itself, and what it may do besides returning an update.
/// Cheap to clone.
#[derive(Clone)]
pub struct NodeContext {
    pub(crate) scope: Arc<NodeScope>,
    /// Of this attempt, if it has a limit.
    pub(crate) timed: Option<Arc<TimedAttempt>>,
}

/// One execution of one task.
pub(crate) struct NodeScope {
    pub node: Arc<str>,
    pub task: Arc<str>,
    pub checkpoint: Arc<str>,
    /// The namespace of the task: its graph's own, the node and the task id.
    pub namespace: Arc<str>,
    pub triggers: Vec<Arc<str>>,
    pub progress: Progress,
    pub labels: Labels,
    pub configurable: serde_json::Map<String, serde_json::Value>,
    pub context: Value,
    pub doors: Doors,
    pub outlet: Arc<Outlet>,
    pub resumes: Mutex<Resumes>,
    /// The failed task that this one takes care of.
    pub handles: Option<Arc<Handled>>,
    /// The timed attempt of a node around the graph.
    pub around: Option<Arc<TimedAttempt>>,
    /// The run that the task belongs to; it outlives the task.
    pub core: Weak<RunCore>,
    /// Attempts made at this task, this one included.
    pub attempt: AtomicU32,
    /// Graphs that the task has run.
    pub subgraphs: AtomicU32,
}

/// Answers to this task's `interrupt()` calls, by order of call.
#[derive(Default)]
pub(crate) struct Resumes {
    /// Answers known so far: of earlier resumes, or addressed by interrupt id.
    pub answers: Vec<Value>,
    /// The answer that came with this run's command, addressed to nobody in particular: the first
    /// call that has no answer yet takes it.
    pub unaddressed: Arc<Mutex<Option<Value>>>,
    /// How many calls were made in this execution.
    pub asked: usize,
    /// How many calls were answered in this execution.
    pub answered: usize,
}

impl NodeContext {
    pub fn node(&self) -> &str {
        &self.scope.node
    }

    /// The task id: the same checkpoint gives the same id.
    pub fn task(&self) -> &str {
        &self.scope.task
    }

    /// Id of the checkpoint that this step started from.
    pub fn checkpoint(&self) -> &str {
        &self.scope.checkpoint
    }

    pub fn step(&self) -> i64 {
        self.scope.progress.step
    }

    pub fn thread(&self) -> Option<&str> {
        self.scope.labels.thread.as_deref()
    }

    pub fn run(&self) -> Option<&str> {
        self.scope.labels.run.as_deref()
    }

    pub fn request(&self) -> Option<&str> {
        self.scope.labels.request.as_deref()
    }

    /// A value of the run's `configurable`.
    pub fn configurable(&self, key: &str) -> Option<&serde_json::Value> {
        self.scope.configurable.get(key)
    }

    /// The run's context, as a `T`.
    pub fn context<T: serde::de::DeserializeOwned>(&self) -> Result<T, NodeError> {
        value::from_value(&self.scope.context)
            .map_err(|error| NodeError::failed("TypeError", format!("the run's context: {error}")))
    }

    pub fn doors(&self) -> &Doors {
        &self.scope.doors
    }

    /// How often this task was tried, this time included: more than 1 under a retry policy.
    pub fn attempt(&self) -> u32 {
        self.scope.attempt.load(Ordering::Relaxed)
    }

    /// The failure that this node takes care of, if it is an error handler.
    pub fn failure(&self) -> Option<&NodeFailure> {
        self.scope.handles.as_ref().map(|handled| &handled.failure)
    }

    /// Why the run is asked to end early, once it is: a node that takes long may stop by itself.
    pub fn drain_reason(&self) -> Option<Arc<str>> {
        self.scope.core.upgrade()?.config.control.as_ref()?.drain_reason()
    }

    /// Is this the last step that the run's recursion limit allows?
    pub fn is_last_step(&self) -> bool {
        Managed::IsLastStep.value(self.scope.progress) == Value::Boolean(true)
    }

    /// Runs `graph` inside this node and gives what it ends with. It stores its checkpoints under
    /// this node's, pauses with it, and ends with it. Pass its error on with `?`.
    pub async fn invoke<T: serde::Serialize>(
        &self,
        graph: &CompiledGraph,
        input: &T,
    ) -> Result<Value, NodeError> {
        let input =
            value::to_value(input).map_err(|error| NodeError::failed("ValueError", error))?;
        let core = self.scope.core.upgrade();
        let core = core.ok_or_else(|| NodeError::failed("RuntimeError", "the run is over"))?;
        core.run_inside(&graph.inner, input, &self.scope, self.timed.as_ref()).await
    }

    /// Sleeps on the library's clock.
    pub async fn sleep(&self, duration: Duration) {
        self.scope.doors.clock.sleep(duration).await;
    }

    /// Sends a piece of model output to the stream (mode `messages`) at once, with what is known of
    /// this task beside it.
    pub fn emit_message<T: serde::Serialize>(&self, message: T) -> Result<(), NodeError> {
        let scope = &self.scope;
        if !self.is_heard() || !scope.outlet.wants(StreamMode::Messages) {
            return Ok(());
        }
        let message =
            value::to_value(&message).map_err(|error| NodeError::failed("ValueError", error))?;
        let triggers = scope.triggers.iter().map(|name| Value::from(&**name)).collect();
        let mut about = vec![
            ("langgraph_step".to_owned(), Value::from(scope.progress.step)),
            ("langgraph_node".to_owned(), Value::from(&*scope.node)),
            ("langgraph_triggers".to_owned(), Value::Array(triggers)),
            ("langgraph_checkpoint_ns".to_owned(), Value::from(&*scope.namespace)),
        ];
        if let Some(core) = scope.core.upgrade() {
            let metadata = core.graph.nodes[&scope.node].metadata.iter();
            about.extend(metadata.map(|(k, v)| (k.clone(), value::from_json(v.clone()))));
        }
        let about = value::map(about);
        scope.outlet.queue(StreamMode::Messages, Value::Array(vec![message, about]));
        Ok(())
    }

    /// Sends `value` to the stream (mode `custom`) at once.
    pub fn emit<T: serde::Serialize>(&self, value: T) -> Result<(), NodeError> {
        let outlet = &self.scope.outlet;
        if self.is_heard() && outlet.wants(StreamMode::Custom) {
            let data = value::to_value(&value).map_err(|e| NodeError::failed("ValueError", e))?;
            outlet.queue(StreamMode::Custom, data);
        }
        Ok(())
    }

    /// A handle that only emits.
    pub fn emitter(&self) -> Emitter {
        Emitter(self.clone())
    }

    /// Shows that the node goes on: its idle limit begins anew. Without such a limit of its own, it
    /// is that of the node around its graph, if there is one; otherwise this does nothing.
    pub fn heartbeat(&self) {
        if let Some(attempt) = self.timed.as_ref().or(self.scope.around.as_ref()) {
            attempt.heartbeat();
        }
    }

    /// Does what this attempt emits still count? It is progress, if it does.
    fn is_heard(&self) -> bool {
        if let Some(attempt) = &self.timed {
            if attempt.is_over() {
                return false;
            }
            attempt.progress();
        }
        match &self.scope.around {
            Some(around) if self.scope.outlet.shows_subgraphs() => {
                around.progress_all();
                !around.is_any_over()
            }
            _ => true,
        }
    }

    /// Performs something that the outside can see. Passes the gate's point for effects, so that a
    /// simulated world can order it against everything else.
    pub async fn effect<T>(&self, key: &str, effect: impl Future<Output = T>) -> T {
        let point = || Point {
            actor: self.scope.labels.run.clone().unwrap_or_else(|| "-".into()),
            operation: Operation::Effect,
            key: key.into(),
            id: self.scope.task.clone(),
        };
        let _pass = self.scope.doors.gate.pass(point).await;
        effect.await
    }

    /// Asks the caller something. The first time, the run pauses here (`?` hands the pause on);
    /// when it is resumed, the node runs again from its start and this returns the answer.
    /// Several calls in one node are answered in order.
    pub fn interrupt<T: serde::Serialize>(&self, question: T) -> Result<Value, NodeError> {
        let mut resumes = self.scope.resumes.lock().unwrap();
        let index = resumes.asked;
        resumes.asked += 1;
        if index >= resumes.answers.len() {
            let unaddressed = resumes.unaddressed.lock().unwrap().take();
            match unaddressed {
                Some(answer) => resumes.answers.push(answer),
                None => {
                    let value = value::to_value(&question)
                        .map_err(|error| NodeError::failed("ValueError", error))?;
                    let id = task_id::interrupt_id(&self.scope.namespace);
                    return Err(NodeError::Interrupted(vec![Interrupt { value, id }]));
                }
            }
        }
        resumes.answered += 1;
        Ok(resumes.answers[index].clone())
    }
}

impl NodeScope {
    /// What a resumed task puts in front of its writes: the list of all its answers, once for every
    /// call that was answered. So regular writes start at an index that counts the answers.
    pub fn resume_records(&self) -> Vec<(Arc<str>, Shared)> {
        let resumes = self.resumes.lock().unwrap();
        let answers: Shared = Arc::new(Value::Array(resumes.answers.clone()));
        vec![(reserved::RESUME.into(), answers); resumes.answered]
    }
}

/// Sends values to the stream from inside a node.
#[derive(Clone)]
pub struct Emitter(NodeContext);

impl Emitter {
    pub fn emit<T: serde::Serialize>(&self, value: T) -> Result<(), NodeError> {
        self.0.emit(value)
    }
}
