//! How a run starts: what it loads, and whether it enters at START or goes on in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::RunError;
use super::apply::{Contribution, apply, from_input};
use super::command::command_value;
use super::config::{Input, RunConfig};
use super::core::{Inside, Replay, RunCore, RunState};
use super::deltas::{Deltas, Rebuilt, is_branched, load};
use super::plan::plan;
use super::puts::Puts;
use super::run::Start;
use super::turns::turns;
use crate::checkpoint::id::Ids;
use crate::checkpoint::saver::{Claim, LateWrites, Look, Saver, SaverError};
use crate::checkpoint::{
    Checkpoint, CheckpointTuple, LAYOUT_VERSION, Metadata, Source, ThreadKey, codec, id, reserved,
};
use crate::doors::What;
use crate::graph::{Command, Destination, GraphInner, Resume};
use crate::ordered::IndexMap;
use crate::profile::{Forks, IdOrder, UnaskedAnswers};
use crate::stream::Outlet;
use crate::value::Value;

impl RunCore {
    /// Loads the thread and applies the input, as LangGraph's `_first` does (FORMAT.md section 9).
    pub async fn start(start: Start, outlet: Arc<Outlet>) -> Result<Arc<RunCore>, RunError> {
        let Start { graph, config, labels, input, only_output } = start;
        let key = ThreadKey::root(config.thread.clone());
        let saver = graph.saver.clone();
        let (look, rebuilt) = match &saver {
            None => (Look::default(), Rebuilt::new()),
            Some(saver) => load(&graph, saver, &key, config.checkpoint.as_deref()).await?,
        };
        let Look { tuple: saved, deletions } = look;
        let claim = graph.claim(deletions);
        let ids = Arc::new(Ids::new(&graph.mint));
        if let (None, Some(checkpoint)) = (&saved, &config.checkpoint) {
            return Err(RunError::UnknownCheckpoint {
                thread: config.thread.to_string(),
                checkpoint: checkpoint.to_string(),
            });
        }
        let is_replaying = config.checkpoint.is_some();
        let is_branched =
            is_replaying && is_branched(&graph, saver.as_ref(), saved.as_ref()).await?;
        graph.keep_ids_above(&ids, saver.as_ref(), saved.as_ref(), is_replaying).await?;
        let mut state = RunCore::opened(&graph, &config, saved, &rebuilt, is_replaying);
        state.deltas.is_branched = is_branched;
        let state = Mutex::new(state);
        let family = Arc::default();
        let turns = turns(&config);
        let inside = None;
        let path = Arc::default();
        let core = Arc::new(RunCore {
            graph,
            config,
            key,
            only_output,
            saver,
            claim,
            ids,
            inside,
            family,
            path,
            labels,
            outlet,
            turns,
            state,
        });
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

    /// Goes on with what the checkpoint left, or applies the input.
    pub(super) fn enter(
        self: &Arc<Self>,
        state: &mut RunState,
        input: Input,
    ) -> Result<(), RunError> {
        let input = without_null_answer(input);
        let goes_on = self.goes_on(state, &input);
        if !goes_on || matches!(&input, Input::Command(_)) {
            self.graph.check_input(&input).map_err(RunError::BadInput)?;
        }
        let told = self.inside.as_ref().and_then(|inside| inside.resuming);
        let is_answer = matches!(&input, Input::Command(Command { resume: Some(_), .. }));
        let is_time_travel = state.is_replaying && !is_answer && told != Some(true);
        if is_time_travel {
            // Going back asks again: earlier answers do not count.
            state.pending.retain(|write| &*write.channel != reserved::RESUME);
        }
        if let Input::Command(command) = &input {
            self.take_command(state, command)?;
        }
        self.apply_taskless(state)?;
        if goes_on {
            self.go_on(state, is_time_travel);
        } else {
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
            self.take_input(state, input)?;
        }
        // Graphs inside are told what the root does, until it has made a step.
        state.resuming = if self.inside.is_some() { told } else { Some(goes_on) };
        if is_time_travel && self.inside.is_none() {
            let before = match state.metadata.source {
                Source::Update | Source::Fork => state.before_head.clone(),
                Source::Input | Source::Loop | Source::Anchor => None,
            };
            let before = before.unwrap_or_else(|| state.checkpoint.id.clone());
            let _ = self.family.replay.set(Replay { before, visited: Mutex::default() });
        }
        Ok(())
    }

    fn goes_on(&self, state: &RunState, input: &Input) -> bool {
        if state.checkpoint.channel_versions.is_empty() {
            return false;
        }
        if let Some(Inside { resuming: Some(told), .. }) = self.inside {
            return told;
        }
        let is_same_run = || {
            self.inside.is_none()
                && self
                    .config
                    .configurable
                    .get("run_id")
                    .is_some_and(|run_id| state.metadata.extra.get("run_id") == Some(run_id))
        };
        !matches!(input, Input::New(_)) || is_same_run()
    }

    fn go_on(self: &Arc<Self>, state: &mut RunState, is_time_travel: bool) {
        let known: Vec<_> = state
            .channels
            .keys()
            .filter_map(|name| state.checkpoint.channel_versions.get_key_value(name))
            .map(|(name, version)| (name.clone(), version.clone()))
            .collect();
        let seen = state.checkpoint.versions_seen.entry(reserved::INTERRUPT.into()).or_default();
        seen.extend(known);
        let is_branch = matches!(state.metadata.source, Source::Update | Source::Fork);
        // One that has children may get no more rows of delta channels, and a task's rows are all or
        // none: they go to a fork as well.
        if is_time_travel && (!is_branch || state.deltas.is_branched) {
            state.pending.retain(|write| &*write.channel != reserved::INTERRUPT);
            // The fork is a state of its own in which nothing has just changed, but the run
            // goes on from what had changed in the checkpoint that it forks.
            let updated = state.updated.take();
            self.checkpoint_step(state, Source::Fork);
            state.updated = updated;
        }
        self.show_values(state);
    }

    /// A new turn discards what was unfinished: its triggers count as seen, and its pending writes
    /// are not used.
    fn take_input(self: &Arc<Self>, state: &mut RunState, input: Value) -> Result<(), RunError> {
        let discarded =
            plan(self.place(state), &state.checkpoint, &state.channels, state.updated.as_ref());
        for task in discarded.values().filter(|task| !task.is_hidden()) {
            let (node, task) = (task.node.clone(), task.id.clone());
            self.observe(|| What::TaskDiscarded { node, task });
        }
        let writes = vec![(Arc::from(reserved::START), Arc::new(input))];
        let tasks = discarded.values().map(|task| Contribution { writes: &[], ..task.into() });
        let tasks = tasks.chain([from_input(&writes)]).collect();
        let RunState { checkpoint, channels, .. } = state;
        let updated =
            apply(&self.graph, checkpoint, channels, tasks, |highest| self.next_version(highest))?;
        state.updated = Some(updated);
        self.checkpoint_step(state, Source::Input);
        Ok(())
    }

    /// Makes pending writes of no task from what a command says.
    fn take_command(
        self: &Arc<Self>,
        state: &mut RunState,
        command: &Command,
    ) -> Result<(), RunError> {
        if command.graph == Destination::Parent {
            return Err(RunError::NoParent);
        }
        if let Some(problem) = &command.update.problem {
            return Err(RunError::BadCommand { problem: problem.to_string() });
        }
        let mut writes = self
            .directions(command.goto.clone(), Value::from(reserved::START))
            .map_err(|error| RunError::BadCommand { problem: error.to_string() })?;
        match &command.resume {
            None => {}
            Some(_) if self.saver.is_none() => return Err(RunError::NoSaver),
            Some(Resume::ById(answers)) => {
                self.check_asked(state, answers.keys().map(String::as_str))?;
                self.family.answers.lock().unwrap().clone_from(answers);
            }
            Some(Resume::Value(answer)) => {
                let waiting = waiting_interrupts(state);
                if waiting.len() > 1 {
                    let thread = self.config.thread.to_string();
                    return Err(RunError::AmbiguousResume { thread, waiting: waiting.len() });
                }
                if waiting.is_empty() {
                    self.check_asked(state, [])?;
                }
                writes.push((reserved::RESUME.into(), Arc::new(answer.clone())));
            }
        }
        writes.extend(command.update.writes.iter().cloned());
        if writes.is_empty() && command.resume.is_none() {
            return Err(RunError::EmptyCommand);
        }
        if !writes.is_empty() {
            self.put_writes(state, &reserved::NULL_TASK.into(), writes);
        }
        Ok(())
    }

    /// Under the option that does not take answers which nobody asked for: is each of these ids
    /// waited for, and anything at all?
    fn check_asked<'i>(
        &self,
        state: &RunState,
        ids: impl IntoIterator<Item = &'i str>,
    ) -> Result<(), RunError> {
        if self.graph.options.unasked_answers == UnaskedAnswers::Taken {
            return Ok(());
        }
        let thread = self.config.thread.to_string();
        let waiting = waiting_interrupts(state);
        if waiting.is_empty() {
            return Err(RunError::NothingAsked { thread });
        }
        match ids.into_iter().find(|id| !waiting.contains(*id)) {
            None => Ok(()),
            Some(id) => {
                let waiting = waiting.into_iter().collect::<Vec<_>>().join(", ");
                Err(RunError::UnknownInterrupt { thread, id: id.to_owned(), waiting })
            }
        }
    }

    /// Applies the pending writes of no task, of this command and of earlier ones.
    fn apply_taskless(&self, state: &mut RunState) -> Result<(), RunError> {
        let writes: Vec<_> = state
            .pending
            .iter()
            .filter(|write| &*write.task == reserved::NULL_TASK)
            .map(|write| (write.channel.clone(), write.value.clone()))
            .collect();
        if writes.is_empty() {
            return Ok(());
        }
        let RunState { checkpoint, channels, .. } = state;
        let updated =
            apply(&self.graph, checkpoint, channels, vec![from_input(&writes)], |highest| {
                self.next_version(highest)
            })?;
        if let Some(all) = &mut state.updated {
            all.extend(updated);
        }
        Ok(())
    }

    /// A run's state as a checkpoint left it, or of a thread that is not there yet.
    pub(super) fn opened(
        graph: &GraphInner,
        config: &RunConfig,
        saved: Option<CheckpointTuple>,
        rebuilt: &Rebuilt,
        is_replaying: bool,
    ) -> RunState {
        let loaded = saved.as_ref().map(|tuple| tuple.checkpoint.id.clone());
        let before_head = saved.as_ref().and_then(|tuple| tuple.parent.clone());
        let (checkpoint, metadata, pending) = match saved {
            Some(tuple) => (tuple.checkpoint, tuple.metadata, tuple.writes),
            None => (empty_checkpoint(graph), empty_metadata(), vec![]),
        };
        let step = metadata.step + 1;
        RunState {
            channels: graph.open_channels(&checkpoint, rebuilt),
            deltas: Deltas::of_loaded(graph, &checkpoint.id, &pending),
            stored_versions: checkpoint.channel_versions.clone(),
            // An empty list means the same as none: look at every node.
            updated: checkpoint
                .updated_channels
                .as_ref()
                .filter(|names| !names.is_empty())
                .map(|names| names.iter().cloned().collect()),
            checkpoint,
            metadata,
            written: BTreeSet::new(),
            found: pending.iter().map(|write| write.task.clone()).collect(),
            pending,
            tasks: IndexMap::default(),
            step,
            stop: step.saturating_add_unsigned(config.recursion_limit).saturating_add(1),
            head: loaded.clone(),
            goes_back: is_replaying,
            loaded,
            before_head,
            resuming: None,
            output: None,
            puts: Puts::new(graph.options.write_order),
            running: Default::default(),
            leaving: Vec::new(),
            ended: Vec::new(),
            has_failed: false,
            past_failure: None,
            answer: Arc::default(),
            is_answer_settled: true,
            is_replaying,
            is_leaving: false,
            is_over: false,
        }
    }
}

impl GraphInner {
    /// What a run or an update asks of a thread that had been deleted so often when it looked.
    pub(super) fn claim(&self, deletions: Option<u32>) -> Claim {
        Claim {
            deletions: deletions.filter(|_| self.options.late_writes == LateWrites::Refused),
            parent_is_head: self.options.forks == Forks::Refused,
        }
    }

    /// Under the option that says so: ids of this run are greater than that of the thread's head,
    /// which is the loaded checkpoint unless the run goes back.
    pub(super) async fn keep_ids_above(
        &self,
        ids: &Ids,
        saver: Option<&Arc<dyn Saver>>,
        loaded: Option<&CheckpointTuple>,
        goes_back: bool,
    ) -> Result<(), SaverError> {
        let (IdOrder::AboveHead, Some(saver), Some(loaded)) =
            (self.options.id_order, saver, loaded)
        else {
            return Ok(());
        };
        let other = match goes_back {
            true => saver.get_tuple(&loaded.key, None).await?,
            false => None,
        };
        for tuple in other.iter().chain([loaded]) {
            let id = &tuple.checkpoint.id;
            if !ids.keep_above(id) {
                let (thread, id) = (loaded.key.thread.to_string(), id.to_string());
                return Err(SaverError::GreatestId { thread, id });
            }
        }
        Ok(())
    }
}

/// Null is no answer, unless it is given by interrupt id: LangGraph cannot tell it from none.
fn without_null_answer(mut input: Input) -> Input {
    if let Input::Command(command) = &mut input
        && command.resume == Some(Resume::Value(Value::Nil))
    {
        command.resume = None;
    }
    input
}

/// Ids of the interrupts that no answer was given to.
fn waiting_interrupts(state: &RunState) -> BTreeSet<String> {
    let of = |channel: &str| -> BTreeSet<&Arc<str>> {
        let writes = state.pending.iter().filter(|write| &*write.channel == channel);
        writes.map(|write| &write.task).collect()
    };
    let answered = of(reserved::RESUME);
    let asked = state
        .pending
        .iter()
        .filter(|write| &*write.channel == reserved::INTERRUPT && !answered.contains(&write.task));
    asked
        .filter_map(|write| codec::read_interrupt(write.value.as_array()?.first()?))
        .map(|(_, id)| id)
        .collect()
}

pub(super) fn empty_checkpoint(graph: &GraphInner) -> Checkpoint {
    Checkpoint {
        layout: LAYOUT_VERSION,
        ts: id::timestamp(graph.doors.clock.now()),
        id: graph.mint.mint(-2),
        channel_values: IndexMap::default(),
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
