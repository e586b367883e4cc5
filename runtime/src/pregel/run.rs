//! The loop itself: one run from its input to its end.

use std::sync::Arc;

use super::apply::{Contribution, apply};
use super::core::{RunCore, RunState};
use super::plan::{pauses, plan, restore_finished};
use super::{Input, RunConfig, RunError};
use crate::checkpoint::Source;
use crate::doors::{Labels, What};
use crate::graph::{CompiledGraph, GraphInner, NodeError};
use crate::profile::Durability;
use crate::stream::{Outlet, RunStream};
use crate::value::Value;

/// How a run that was not cut short has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Finished,
    OutOfSteps,
    /// At a static interrupt.
    Paused,
    /// At questions of nodes.
    Asked,
    /// At the edge of a super-step, as was asked for.
    Drained,
}

impl CompiledGraph {
    /// Starts a run. It does nothing until the stream is polled, and goes on only while it is.
    pub fn stream(&self, input: Input, config: RunConfig) -> RunStream {
        RunStream::new(self.start(input, config, false))
    }

    /// Runs to the end and gives what the graph gives back: the keys of its output. The error is
    /// that of the run; a run that pauses at an interrupt gives the state so far.
    pub async fn invoke(&self, input: Input, mut config: RunConfig) -> Result<Value, RunError> {
        config.modes = vec![crate::stream::StreamMode::Values];
        let last = RunStream::last(self.start(input, config, true)).await?;
        Ok(last.map_or(Value::Nil, |chunk| chunk.data))
    }

    fn start(&self, input: Input, config: RunConfig, only_output: bool) -> Start {
        let doors = &self.inner.doors;
        let run = config
            .run
            .clone()
            .unwrap_or_else(|| format!("{:016x}", doors.entropy.u64("run.id")).into());
        let labels = Labels {
            request: config.request.clone(),
            run: Some(run),
            thread: Some(config.thread.clone()),
        };
        Start { graph: self.inner.clone(), config, labels, input, only_output }
    }
}

/// A run that is about to begin.
pub(crate) struct Start {
    pub graph: Arc<GraphInner>,
    pub config: RunConfig,
    pub labels: Labels,
    pub input: Input,
    /// The stream shows what the graph gives back, and not the whole state.
    pub only_output: bool,
}

impl RunCore {
    /// From a started run to its end. Exit duties are done before the last chunks leave.
    pub async fn drive(self: &Arc<Self>) -> Result<(), RunError> {
        let result = self.steps().await;
        match &result {
            Ok(End::Paused) | Err(RunError::Node { error: NodeError::Interrupted(_), .. }) => {
                self.begin_pause();
            }
            _ => self.begin_exit(),
        }
        let settled = self.settle().await;
        let outcome = match result {
            Ok(end) => Ok(end),
            Err(RunError::Node { error: NodeError::Interrupted(asked), .. }) => {
                Ok(if asked.is_empty() { End::Paused } else { End::Asked })
            }
            Err(RunError::Node { error: NodeError::Drained { .. }, .. }) => Ok(End::Drained),
            Err(error) => Err(error),
        };
        let outcome = outcome.and_then(|end| self.past_failure(end).map_or(Ok(end), Err));
        // A pause that could not be stored is no pause: it could never be answered.
        let outcome = match (outcome, settled) {
            (Err(error), _) => Err(error),
            (Ok(_), Err(error)) => Err(error.into()),
            (Ok(end), Ok(())) => Ok(end),
        };
        if let Ok(End::Paused | End::Asked) = outcome {
            self.show_paused()?;
        }
        if let Ok(End::Paused) = outcome {
            self.show_static_pause();
        }
        let name = match outcome {
            Ok(End::Finished) => "finished",
            Ok(End::Paused | End::Asked) => "interrupted",
            Ok(End::Drained) => "drained",
            Ok(End::OutOfSteps) | Err(_) => "failed",
        };
        self.observe(|| What::RunEnded { outcome: name });
        if outcome.is_ok() {
            self.outlet.yield_queued().await;
        }
        match outcome? {
            End::Finished | End::Paused | End::Asked => Ok(()),
            End::OutOfSteps => Err(RunError::Recursion { limit: self.config.recursion_limit }),
            End::Drained => Err(RunError::Drained { reason: self.drained_for() }),
        }
    }

    pub(super) async fn steps(self: &Arc<Self>) -> Result<End, RunError> {
        loop {
            if self.config.durability == Durability::Async {
                self.let_puts_go_on().await?;
            }
            if let Some(end) = self.tick() {
                return Ok(end);
            }
            if self.graph.cache.is_some() {
                self.use_cached().await?;
            }
            self.execute().await?;
            if let Some(end) = self.finish_step()? {
                return Ok(end);
            }
            if self.config.durability == Durability::Sync {
                self.await_put().await?;
            }
        }
    }

    /// Plans the next super-step, or says why there is none. The limit is checked first, so a run
    /// that needs exactly `limit` steps does its work, stores it, and still fails (FORMAT.md 9.7).
    fn tick(&self) -> Option<End> {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        if state.step > state.stop {
            return Some(End::OutOfSteps);
        }
        state.offer_answer(self.inside.as_ref().map(|inside| &inside.answer));
        let place = self.place(state);
        state.tasks = plan(place, &state.checkpoint, &state.channels, state.updated.as_ref());
        self.show_checkpoint(state);
        if state.tasks.is_empty() {
            return Some(End::Finished);
        }
        if self.drain_reason().is_some() {
            return Some(End::Drained);
        }
        if !state.is_replaying && !state.pending.is_empty() {
            restore_finished(&mut state.tasks, &state.pending);
            self.resume_handlers(state);
        }
        if pauses(self.interrupts_before(), &state.checkpoint, state.tasks.values()) {
            return Some(End::Paused);
        }
        self.show_tasks(state);
        for (id, task) in state.tasks.iter().filter(|(_, task)| !task.writes.is_empty()) {
            self.show_writes(state, id, &task.writes, true);
        }
        None
    }

    /// Applies what the step's tasks wrote and makes its checkpoint.
    fn finish_step(self: &Arc<Self>) -> Result<Option<End>, RunError> {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        let updated = self.apply_tasks(state)?;
        if updated {
            self.show_values(state);
        }
        self.note_deltas(state);
        state.pending.clear();
        state.found.clear();
        state.written.clear();
        state.is_replaying = false;
        self.checkpoint_step(state, Source::Loop);
        if pauses(self.interrupts_after(), &state.checkpoint, state.tasks.values()) {
            return Ok(Some(End::Paused));
        }
        state.resuming = None;
        Ok(None)
    }

    fn drain_reason(&self) -> Option<Arc<str>> {
        self.config.control.as_ref()?.drain_reason()
    }

    pub(super) fn drained_for(&self) -> String {
        self.drain_reason().as_deref().unwrap_or_default().to_owned()
    }

    fn interrupts_before(&self) -> &[Arc<str>] {
        self.config.interrupt_before.as_deref().unwrap_or(&self.graph.interrupt_before)
    }

    fn interrupts_after(&self) -> &[Arc<str>] {
        self.config.interrupt_after.as_deref().unwrap_or(&self.graph.interrupt_after)
    }

    /// True when a key of the state changed.
    fn apply_tasks(&self, state: &mut RunState) -> Result<bool, RunError> {
        let RunState { checkpoint, channels, tasks, .. } = state;
        let contributions = tasks.values().map(Contribution::from).collect();
        let updated = apply(&self.graph, checkpoint, channels, contributions, |highest| {
            self.next_version(highest)
        })?;
        let changed = updated.iter().any(|name| self.shown_keys().contains(name));
        state.updated = Some(updated);
        Ok(changed)
    }

    /// What a paused run shows last: the values with the writes of finished siblings applied.
    fn show_paused(&self) -> Result<(), RunError> {
        let mut state = self.state.lock().unwrap();
        let any_finished = state.tasks.values().any(|task| !task.writes.is_empty());
        if !state.pending.is_empty() && any_finished && self.apply_tasks(&mut state)? {
            self.show_values(&mut state);
        }
        Ok(())
    }
}

/// The future behind a stream: load, enter, loop.
pub(crate) async fn run(
    start: Start,
    outlet: Arc<Outlet>,
    started: futures::channel::oneshot::Sender<Arc<RunCore>>,
) -> Result<(), RunError> {
    let name = start.input.name();
    let (observer, labels) = (start.graph.doors.observer.clone(), start.labels.clone());
    let observe = |what| {
        observer.observe(crate::doors::Event { labels: labels.clone(), what });
    };
    observe(What::RunStarted { input: name });
    let core = RunCore::start(start, outlet).await;
    let core = core.inspect_err(|_| observe(What::RunEnded { outcome: "failed" }))?;
    let _ = started.send(core.clone());
    core.drive().await
}
