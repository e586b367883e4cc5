//! The instrument: what really executed.
//!
//! An append log that belongs to the world, not to any process. An append is atomic and instant,
//! so the log never loses a line and its order is the order of execution. It survives every kill;
//! a process that is down cannot write to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

/// One executed effect. Ids are whatever the program that executed it said about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// Virtual time since the start of the world.
    pub at: Duration,
    pub process: Arc<str>,
    /// Which life of the process, from 1.
    pub incarnation: u32,
    pub thread: Arc<str>,
    pub request: Option<Arc<str>>,
    pub run: Option<Arc<str>>,
    /// The node of the graph that executed it.
    pub node: Arc<str>,
    /// Which of the node's effects it is; the node's own name where it has one.
    pub label: Arc<str>,
    pub task: Arc<str>,
    /// The checkpoint that the task started from, stored or not.
    pub checkpoint: Arc<str>,
    /// The step that the task belongs to: that of the checkpoint it started from, plus one.
    pub step: i64,
}

/// The log of one world. Cloning gives another handle to the same log.
#[derive(Debug, Clone, Default)]
pub struct EffectLog(Arc<Mutex<Vec<Effect>>>);

impl EffectLog {
    pub fn new() -> EffectLog {
        EffectLog::default()
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<Effect>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything so far, in order of execution.
    pub fn all(&self) -> Vec<Effect> {
        self.lines().clone()
    }

    /// What was executed for one thread, in order.
    pub fn of_thread(&self, thread: &str) -> Vec<Effect> {
        self.lines().iter().filter(|effect| &*effect.thread == thread).cloned().collect()
    }

    /// Appends a line on behalf of `process` and notes it in the trace. Does nothing, and says so
    /// by `false`, when the process is down.
    #[cfg(madsim)]
    pub fn append(&self, process: &durasim_sim::Process, effect: Effect) -> bool {
        if !process.is_alive() {
            return false;
        }
        let labels = durasim_sim::Labels {
            request: effect.request.clone(),
            run: effect.run.clone(),
            thread: Some(effect.thread.clone()),
            checkpoint: Some(effect.checkpoint.clone()),
            task: Some(effect.task.clone()),
        };
        process.note(labels, "effect.executed", vec![("effect", (&effect.label).into())]);
        self.lines().push(effect);
        true
    }
}
