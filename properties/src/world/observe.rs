//! The runtime's events as events of the trace.

use std::sync::Arc;

use durasim_runtime::doors::{Event, Observer, What};
use durasim_sim::{Labels, Process, Value};

/// Notes everything that a process's runtime tells. Silent once the process is fenced.
pub(super) struct TraceObserver {
    process: Process,
}

impl TraceObserver {
    pub fn new(process: Process) -> TraceObserver {
        TraceObserver { process }
    }
}

type Fields = Vec<(&'static str, Value)>;

impl Observer for TraceObserver {
    fn observe(&self, event: Event) {
        let of = event.labels;
        let mut labels =
            Labels { request: of.request, run: of.run, thread: of.thread, ..Labels::none() };
        let (name, checkpoint, task, fields) = describe(event.what);
        labels.checkpoint = checkpoint;
        labels.task = task;
        self.process.note(labels, name, fields);
    }
}

type Id = Option<Arc<str>>;

fn describe(what: What) -> (&'static str, Id, Id, Fields) {
    let node = |node: Arc<str>| vec![("node", node.into())];
    match what {
        What::RequestArrived { path } => {
            ("request.arrived", None, None, vec![("path", path.into())])
        }
        What::RunStarted { input } => ("run.started", None, None, vec![("input", input.into())]),
        What::CheckpointLoaded { checkpoint, step } => {
            ("checkpoint.loaded", Some(checkpoint), None, vec![("step", step.into())])
        }
        What::NodeEntered { node: n, task, checkpoint } => {
            ("node.entered", Some(checkpoint), Some(task), node(n))
        }
        What::NodeFinished { node: n, task } => ("node.finished", None, Some(task), node(n)),
        What::NodeFailed { node: n, task, error } => {
            ("node.failed", None, Some(task), vec![("node", n.into()), ("error", error.into())])
        }
        What::NodeInterrupted { node: n, task } => ("node.interrupted", None, Some(task), node(n)),
        What::NodeCancelled { node: n, task } => ("node.cancelled", None, Some(task), node(n)),
        What::NodeOrphaned { node: n, task } => ("node.orphaned", None, Some(task), node(n)),
        What::PutBegun { checkpoint, source, step } => {
            let fields = vec![("source", source.into()), ("step", step.into())];
            ("put.begun", Some(checkpoint), None, fields)
        }
        What::PutAcknowledged { checkpoint, source, step } => {
            let fields = vec![("source", source.into()), ("step", step.into())];
            ("put.acknowledged", Some(checkpoint), None, fields)
        }
        What::PutFailed { checkpoint, step, error } => {
            let fields = vec![("step", step.into()), ("error", error.into())];
            ("put.failed", Some(checkpoint), None, fields)
        }
        What::PutCancelled { checkpoint, step } => {
            ("put.cancelled", Some(checkpoint), None, vec![("step", step.into())])
        }
        What::WritesBegun { checkpoint, task } => {
            ("writes.begun", Some(checkpoint), Some(task), vec![])
        }
        What::WritesAcknowledged { checkpoint, task } => {
            ("writes.acknowledged", Some(checkpoint), Some(task), vec![])
        }
        What::WritesFailed { checkpoint, task, error } => {
            ("writes.failed", Some(checkpoint), Some(task), vec![("error", error.into())])
        }
        What::TaskDiscarded { node: n, task } => ("task.discarded", None, Some(task), node(n)),
        What::ChunkDelivered { mode } => {
            ("chunk.delivered", None, None, vec![("mode", mode.into())])
        }
        What::RunEnded { outcome } => ("run.ended", None, None, vec![("outcome", outcome.into())]),
    }
}
