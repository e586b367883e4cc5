use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::NodeError;
use crate::checkpoint::reserved;
use crate::doors::{Doors, Labels, Operation, Point};
use crate::stream::{Chunk, Outlet, StreamMode};
use crate::value::{self, Shared, Value};

/// What a running node knows about itself, and what it may do besides returning an update.
/// Cheap to clone.
#[derive(Clone)]
pub struct NodeContext {
    pub(crate) scope: Arc<NodeScope>,
}

/// One execution of one task.
pub(crate) struct NodeScope {
    pub node: Arc<str>,
    pub task: Arc<str>,
    pub checkpoint: Arc<str>,
    pub step: i64,
    pub labels: Labels,
    pub configurable: serde_json::Map<String, serde_json::Value>,
    pub doors: Doors,
    pub outlet: Arc<Outlet>,
    pub resumes: Mutex<Resumes>,
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
        self.scope.step
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

    pub fn doors(&self) -> &Doors {
        &self.scope.doors
    }

    /// Sleeps on the library's clock.
    pub async fn sleep(&self, duration: Duration) {
        self.scope.doors.clock.sleep(duration).await;
    }

    /// Sends `value` to the stream (mode `custom`) at once.
    pub fn emit<T: serde::Serialize>(&self, value: T) -> Result<(), NodeError> {
        self.emitter().emit(value)
    }

    /// A handle that only emits.
    pub fn emitter(&self) -> Emitter {
        Emitter(self.scope.outlet.clone())
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
                    let question = value::to_value(&question)
                        .map_err(|error| NodeError::failed("ValueError", error))?;
                    return Err(NodeError::Interrupted(question));
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
pub struct Emitter(Arc<Outlet>);

impl Emitter {
    pub fn emit<T: serde::Serialize>(&self, value: T) -> Result<(), NodeError> {
        if self.0.wants(StreamMode::Custom) {
            let data = value::to_value(&value).map_err(|e| NodeError::failed("ValueError", e))?;
            self.0.queue(Chunk { mode: StreamMode::Custom, data });
        }
        Ok(())
    }
}
