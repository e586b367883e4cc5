//! How a run starts: what it loads, and whether it enters at START or goes on in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use indexmap::IndexMap;

use super::apply::{Contribution, apply, from_input};
use super::command::command_value;
use super::config::{Input, RunConfig};
use super::core::{RunCore, RunState};
use super::plan::plan;
use super::{Command, RunError};
use crate::checkpoint::saver::SaverError;
use crate::checkpoint::{
    Checkpoint, CheckpointTuple, Metadata, Source, ThreadKey, codec, id, reserved,
};
use crate::doors::{Labels, What};
use crate::graph::GraphInner;
use crate::stream::Outlet;
use crate::value::Value;

impl RunCore {
    /// Loads the thread and applies the input, as LangGraph's `_first` does (FORMAT.md section 9).
    pub async fn start(
        graph: Arc<GraphInner>,
        config: RunConfig,
        labels: Labels,
        outlet: Arc<Outlet>,
        input: Input,
    ) -> Result<Arc<RunCore>, RunError> {
        let key = ThreadKey::root(config.thread.clone());
        let saved = match &graph.saver {
            None => None,
            Some(saver) => saver.get_tuple(&key, config.checkpoint.as_deref()).await?,
        };
        if let (None, Some(checkpoint)) = (&saved, &config.checkpoint) {
            return Err(RunError::UnknownCheckpoint {
                thread: config.thread.to_string(),
                checkpoint: checkpoint.to_string(),
            });
        }
        let state = Mutex::new(open_state(&graph, &config, saved));
        let core = Arc::new(RunCore { graph, config, key, labels, outlet, state });
        {
            let mut state = core.state.lock().unwrap();
            if let Some(loaded) = state.loaded.clone() {
                let step = state.metadata.step;
                core.observe(|| What::CheckpointLoaded { checkpoint: loaded, step });
            }
            core.enter(&mut state, input)?;
        }
        Ok(core)
    }

    fn enter(self: &Arc<Self>, state: &mut RunState, input: Input) -> Result<(), RunError> {
        let has_state = !state.checkpoint.channel_versions.is_empty();
        let same_run = self
            .config
            .configurable
            .get("run_id")
            .is_some_and(|run_id| state.metadata.extra.get("run_id") == Some(run_id));
        let goes_on = has_state && (!matches!(input, Input::New(_)) || same_run);
        let is_answer = matches!(&input, Input::Command(Command { resume: Some(_) }));
        let is_time_travel = state.is_replaying && !is_answer;
        if is_time_travel {
            // Going back asks again: earlier answers do not count.
            state.pending.retain(|write| &*write.channel != reserved::RESUME);
        }
        if let Input::Command(command) = &input {
            self.take_command(state, command)?;
        }
        if goes_on {
            let known: Vec<_> = state
                .channels
                .keys()
                .filter_map(|name| state.checkpoint.channel_versions.get_key_value(name))
                .map(|(name, version)| (name.clone(), version.clone()))
                .collect();
            state
                .checkpoint
                .versions_seen
                .entry(reserved::INTERRUPT.into())
                .or_default()
                .extend(known);
            let branched = matches!(state.metadata.source, Source::Update | Source::Fork);
            if is_time_travel && !branched {
                state.pending.retain(|write| &*write.channel != reserved::INTERRUPT);
                // The fork is a state of its own in which nothing has just changed, but the run
                // goes on from what had changed in the checkpoint that it forks.
                let updated = state.updated.take();
                self.checkpoint_step(state, Source::Fork);
                state.updated = updated;
            }
            self.show_values(state);
            return Ok(());
        }
        let input = match input {
            Input::New(input) => input,
            Input::Command(command) => command_value(&command).map_err(|error| {
                let (channel, problem) = (reserved::START.to_owned(), error.to_string());
                RunError::Saver(SaverError::Unstorable { channel, problem })
            })?,
            Input::Resume => {
                return Err(RunError::EmptyInput { thread: self.config.thread.to_string() });
            }
        };
        self.take_input(state, input)
    }

    /// A new turn discards what was unfinished: its triggers count as seen, and its pending writes
    /// are not used.
    fn take_input(self: &Arc<Self>, state: &mut RunState, input: Value) -> Result<(), RunError> {
        let discarded = plan(
            &self.graph,
            &state.checkpoint,
            &state.channels,
            state.step,
            state.updated.as_ref(),
        );
        for task in discarded.values().filter(|task| !task.is_hidden()) {
            let (node, task) = (task.node.clone(), task.id.clone());
            self.observe(|| What::TaskDiscarded { node, task });
        }
        let writes = vec![(Arc::from(reserved::START), Arc::new(input))];
        let tasks = discarded
            .values()
            .map(|task| Contribution {
                node: &task.node,
                path: &task.path,
                triggers: &task.triggers,
                writes: &[],
            })
            .chain([from_input(&writes)])
            .collect();
        let RunState { checkpoint, channels, .. } = state;
        let updated = apply(&self.graph, checkpoint, channels, tasks, self.doors())?;
        state.updated = Some(updated);
        self.checkpoint_step(state, Source::Input);
        Ok(())
    }

    fn take_command(
        self: &Arc<Self>,
        state: &mut RunState,
        command: &Command,
    ) -> Result<(), RunError> {
        let Some(answer) = &command.resume else { return Err(RunError::EmptyCommand) };
        if self.graph.saver.is_none() {
            return Err(RunError::NoSaver);
        }
        let waiting = waiting_interrupts(state);
        if waiting > 1 {
            let thread = self.config.thread.to_string();
            return Err(RunError::AmbiguousResume { thread, waiting });
        }
        let null: Arc<str> = reserved::NULL_TASK.into();
        self.put_writes(state, &null, vec![(reserved::RESUME.into(), Arc::new(answer.clone()))]);
        let writes: Vec<_> = state
            .pending
            .iter()
            .filter(|write| write.task == null)
            .map(|write| (write.channel.clone(), write.value.clone()))
            .collect();
        let RunState { checkpoint, channels, .. } = state;
        let updated =
            apply(&self.graph, checkpoint, channels, vec![from_input(&writes)], self.doors())?;
        if let Some(all) = &mut state.updated {
            all.extend(updated);
        }
        Ok(())
    }
}

/// Interrupts that no answer was given to, counted by task.
fn waiting_interrupts(state: &RunState) -> usize {
    let of = |channel: &str| -> BTreeSet<&Arc<str>> {
        let writes = state.pending.iter().filter(|write| &*write.channel == channel);
        writes.map(|write| &write.task).collect()
    };
    let answered = of(reserved::RESUME);
    let asked = state
        .pending
        .iter()
        .filter(|write| &*write.channel == reserved::INTERRUPT && !answered.contains(&write.task))
        .filter_map(|write| codec::read_interrupt(write.value.as_array()?.first()?))
        .map(|(_, id)| id)
        .collect::<BTreeSet<_>>();
    asked.len()
}

fn open_state(graph: &GraphInner, config: &RunConfig, saved: Option<CheckpointTuple>) -> RunState {
    let loaded = saved.as_ref().map(|tuple| tuple.checkpoint.id.clone());
    let (checkpoint, metadata, pending) = match saved {
        Some(tuple) => (tuple.checkpoint, tuple.metadata, tuple.writes),
        None => (empty_checkpoint(graph), empty_metadata(), vec![]),
    };
    let step = metadata.step + 1;
    RunState {
        channels: graph.open_channels(&checkpoint),
        stored_versions: checkpoint.channel_versions.clone(),
        // An empty list means the same as none: look at every node.
        updated: checkpoint
            .updated_channels
            .as_ref()
            .filter(|names| !names.is_empty())
            .map(|names| names.iter().cloned().collect()),
        checkpoint,
        metadata,
        pending,
        tasks: IndexMap::new(),
        step,
        stop: step.saturating_add_unsigned(config.recursion_limit).saturating_add(1),
        head: loaded.clone(),
        loaded,
        puts: Default::default(),
        running: IndexMap::new(),
        ended: Vec::new(),
        answer: Arc::default(),
        is_answer_settled: true,
        is_replaying: config.checkpoint.is_some(),
        is_over: false,
    }
}

fn empty_checkpoint(graph: &GraphInner) -> Checkpoint {
    Checkpoint {
        ts: id::timestamp(graph.doors.clock.now()),
        id: graph.mint.mint(-2),
        channel_values: IndexMap::new(),
        channel_versions: Default::default(),
        versions_seen: Default::default(),
        updated_channels: None,
    }
}

fn empty_metadata() -> Metadata {
    Metadata {
        source: Source::Input,
        step: -2,
        parents: BTreeMap::new(),
        extra: Default::default(),
    }
}
