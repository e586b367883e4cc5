//! Writing to a thread from outside a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::apply::{Contribution, apply, from_input};
use super::core::{RunCore, RunState};
use super::deltas::{Counters, is_branched, rebuild};
use super::plan::plan;
use super::task::Task;
use super::{RunConfig, RunError};
use crate::checkpoint::id::{Ids, derived_id};
use crate::checkpoint::saver::{Claim, Fate, Look, Put};
use crate::checkpoint::{CheckpointTuple, Metadata, Source, ThreadKey, reserved};
use crate::doors::Labels;
use crate::graph::{Command, CompiledGraph, END, Update};
use crate::profile::DeltaRows;
use crate::stream::Outlet;
use crate::value::Shared;

/// One write to a thread, as if a node had made it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateUpdate {
    /// `None` writes nothing: with [`END`] for its node it finishes what is unfinished.
    pub values: Option<Update>,
    /// Whose write it is: its edges say what runs next. `None` for the node that wrote last. Besides
    /// nodes, [`END`], `__input__` (as a new turn's input) and `__copy__` (a copy of the checkpoint).
    pub as_node: Option<String>,
}

impl StateUpdate {
    pub fn new(values: impl Into<Update>) -> StateUpdate {
        StateUpdate { values: Some(values.into()), as_node: None }
    }

    pub fn as_node(mut self, node: &str) -> StateUpdate {
        self.as_node = Some(node.to_owned());
        self
    }
}

const COPY: &str = "__copy__";
type Writes = Vec<(Arc<str>, Shared)>;

impl CompiledGraph {
    /// Writes to the thread's head, or to a branch off one of its checkpoints, and gives the id of
    /// the checkpoint that this makes. The thread is unchanged when it fails.
    pub async fn update_state(
        &self,
        thread: &str,
        checkpoint: Option<&str>,
        update: StateUpdate,
    ) -> Result<Arc<str>, RunError> {
        self.bulk_update_state(thread, checkpoint, vec![vec![update]]).await
    }

    /// Several super-steps of updates, one after the other.
    pub async fn bulk_update_state(
        &self,
        thread: &str,
        checkpoint: Option<&str>,
        steps: Vec<Vec<StateUpdate>>,
    ) -> Result<Arc<str>, RunError> {
        let mut at: Option<Arc<str>> = checkpoint.map(Arc::from);
        if steps.is_empty() || steps.iter().any(Vec::is_empty) {
            return Err(bad("there is nothing to write"));
        }
        for step in steps {
            at = Some(self.update_step(thread, at, step).await?);
        }
        Ok(at.expect("there was a step"))
    }

    async fn update_step(
        &self,
        thread: &str,
        at: Option<Arc<str>>,
        mut updates: Vec<StateUpdate>,
    ) -> Result<Arc<str>, RunError> {
        let saver = self.inner.saver.clone().ok_or(RunError::NoSaver)?;
        let key = ThreadKey::root(thread);
        let Look { tuple: saved, deletions } = saver.look(&key, at.as_deref()).await?;
        let claim = self.inner.claim(deletions);
        let ids = Ids::new(&self.inner.mint);
        if let (None, Some(checkpoint)) = (&saved, &at) {
            let (thread, checkpoint) = (thread.to_owned(), checkpoint.to_string());
            return Err(RunError::UnknownCheckpoint { thread, checkpoint });
        }
        for values in updates.iter().filter_map(|update| update.values.as_ref()) {
            self.inner.check_outside(values).map_err(|error| bad(error.to_string()))?;
        }
        let is_branched =
            at.is_some() && is_branched(&self.inner, Some(&saver), saved.as_ref()).await?;
        self.inner.keep_ids_above(&ids, Some(&saver), saved.as_ref(), at.is_some()).await?;
        let editor = Editor::open(self, thread, (claim, ids), saved.clone(), is_branched).await?;
        editor.core.state.lock().unwrap().goes_back = at.is_some();
        let is_special = |update: &StateUpdate| match update.as_node.as_deref() {
            Some(END) => update.values.is_none(),
            Some(reserved::INPUT | COPY) => true,
            _ => false,
        };
        if updates.len() > 1 && updates.iter().any(is_special) {
            return Err(bad("END, __input__ and __copy__ stand alone in their step"));
        }
        if is_special(&updates[0]) {
            let StateUpdate { values, as_node } = updates.remove(0);
            return match as_node.as_deref() {
                Some(END) => editor.clear().await,
                Some(COPY) => editor.copy(values.is_some()).await,
                _ => match values {
                    Some(values) => editor.input(values).await,
                    None => Err(bad("as __input__, it needs values; they may be empty")),
                },
            };
        }
        editor.write(updates).await
    }
}

fn bad(problem: impl Into<String>) -> RunError {
    RunError::BadUpdate { problem: problem.into() }
}

/// A thread's checkpoint while it is written to. It is held as a run that makes no step.
struct Editor {
    core: RunCore,
    saved: Option<CheckpointTuple>,
}

impl Editor {
    async fn open(
        graph: &CompiledGraph,
        thread: &str,
        (claim, ids): (Claim, Ids),
        saved: Option<CheckpointTuple>,
        is_branched: bool,
    ) -> Result<Editor, RunError> {
        let graph = graph.inner.clone();
        let config = RunConfig::new(thread);
        let rebuilt = rebuild(&graph, graph.saver.as_ref(), saved.as_ref()).await?;
        let mut state = RunCore::opened(&graph, &config, saved.clone(), &rebuilt, false);
        // Every node is looked at after an update, whatever has changed.
        state.updated = None;
        state.deltas.is_branched = is_branched;
        state.metadata.extra.clear();
        let state = Mutex::new(state);
        let core = RunCore {
            key: ThreadKey::root(thread),
            only_output: false,
            saver: graph.saver.clone(),
            claim,
            ids: Arc::new(ids),
            inside: None,
            family: Arc::default(),
            path: Arc::default(),
            labels: Labels { thread: Some(thread.into()), ..Labels::default() },
            outlet: Arc::new(Outlet::new(vec![], false)),
            turns: None,
            graph,
            config,
            state,
        };
        Ok(Editor { core, saved })
    }

    /// Finishes what is unfinished, without running it.
    async fn clear(self) -> Result<Arc<str>, RunError> {
        if self.saved.is_some() {
            let mut state = self.core.state.lock().unwrap();
            let state = &mut *state;
            let mut tasks = plan(self.core.place(state), &state.checkpoint, &state.channels, None);
            self.apply_taskless(state)?;
            for write in &state.pending {
                if matches!(&*write.channel, reserved::ERROR | reserved::INTERRUPT) {
                    continue;
                }
                if let Some(task) = tasks.get_mut(&write.task) {
                    task.writes.push((write.channel.clone(), write.value.clone()));
                }
            }
            let finished = tasks.values().map(Contribution::from).collect();
            self.apply(state, finished)?;
        }
        let step = self.step();
        self.put(Source::Update, step + 1, step).await
    }

    /// Takes the values for a new turn's input; nothing runs.
    async fn input(self, values: Update) -> Result<Arc<str>, RunError> {
        let entries = values.writes.iter().map(|(key, value)| (key.to_string(), (**value).clone()));
        let input = Arc::new(crate::value::map(entries));
        let writes: Writes = vec![(reserved::START.into(), input)];
        self.apply(&mut self.core.state.lock().unwrap(), vec![from_input(&writes)])?;
        let step = if self.saved.is_some() { self.step() + 1 } else { -1 };
        let task = derived_id(&self.core.state.lock().unwrap().checkpoint.id, reserved::INPUT);
        let (saver, mut put) = (self.core.saver.clone(), self.core.rows(&task, &task, "", writes));
        let made = self.put(Source::Input, step, step).await?;
        if let Some(saver) = saver {
            put.checkpoint = made.clone();
            saver.put_writes(put).await?;
        }
        Ok(made)
    }

    /// A sibling of the checkpoint, with the same state.
    async fn copy(self, has_values: bool) -> Result<Arc<str>, RunError> {
        if has_values {
            return Err(bad("a copy takes no values; update it in a step of its own"));
        }
        if self.saved.is_none() {
            return Err(bad("there is no checkpoint to copy"));
        }
        let step = self.step();
        {
            let mut state = self.core.state.lock().unwrap();
            state.head = state.before_head.clone();
        }
        self.put_with(Source::Fork, step + 1, step, false).await
    }

    /// Writes as nodes do.
    async fn write(self, updates: Vec<StateUpdate>) -> Result<Arc<str>, RunError> {
        let nodes = self.writers(&updates)?;
        let mut free: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        if self.saved.is_some() {
            let state = self.core.state.lock().unwrap();
            let tasks = plan(self.core.place(&state), &state.checkpoint, &state.channels, None);
            for Task { id, node, .. } in tasks.into_values() {
                free.entry(node).or_default().push(id);
            }
        }
        let own = derived_id(&self.core.state.lock().unwrap().checkpoint.id, reserved::INTERRUPT);
        let mut written: Vec<(Arc<str>, Arc<str>, Writes)> = Vec::new();
        for (node, update) in nodes.into_iter().zip(updates) {
            let command = Command::new().update(update.values.unwrap_or_default());
            let writes = self
                .core
                .writes_of(&node, command)
                .map_err(|(_, error)| bad(format!("as node {node:?}: {error}")))?;
            let waiting = free.get_mut(&node).filter(|tasks| !tasks.is_empty());
            let task = waiting.map_or_else(|| own.clone(), |tasks| tasks.remove(0));
            written.push((node, task, writes));
        }
        let trigger: [Arc<str>; 1] = [reserved::INTERRUPT.into()];
        let contributions = written
            .iter()
            .map(|(node, _, writes)| Contribution {
                node,
                origin: None,
                triggers: &trigger,
                writes,
            })
            .collect();
        // Everything is worked out before anything is stored, so that a mistake stores nothing.
        self.apply(&mut self.core.state.lock().unwrap(), contributions)?;
        self.count(&mut written);
        if let (Some(saved), Some(saver)) = (&self.saved, &self.core.saver) {
            for (_, task, writes) in written.iter().filter(|(.., writes)| !writes.is_empty()) {
                let at = &saved.checkpoint.id;
                saver.put_writes(self.core.rows(at, task, "", writes.clone())).await?;
            }
        }
        let step = self.step() + 1;
        self.put(Source::Update, step, step).await
    }

    /// Says which delta channels the update's checkpoint holds whole: of a fresh thread all, as there
    /// is nothing that their rows could stand beside; else those that are due. Takes rows that must
    /// not be stored out of what was written.
    fn count(&self, written: &mut [(Arc<str>, Arc<str>, Writes)]) {
        let graph = &self.core.graph;
        let mut state = self.core.state.lock().unwrap();
        let RunState { deltas, metadata, updated, .. } = &mut *state;
        if graph.options.delta_rows == DeltaRows::Checked {
            deltas.note(graph, written.iter().map(|(.., writes)| &**writes));
        }
        let names = written.iter().flat_map(|(.., writes)| writes);
        let names: BTreeSet<Arc<str>> = names.map(|(channel, _)| channel.clone()).collect();
        match &self.saved {
            None => {
                let all = graph.deltas().map(|(name, _)| name.clone());
                let is_trusted = graph.options.delta_rows == DeltaRows::Trusted;
                deltas.whole.extend(all.filter(|name| is_trusted || names.contains(name)));
            }
            Some(saved) => {
                for (.., writes) in written {
                    deltas.keep_off(graph, &saved.checkpoint.id, writes);
                }
                let mut counters = Counters::read(graph, &saved.metadata);
                counters.count(Some(&names));
                deltas.whole.append(&mut counters.due(graph));
                counters.store(&deltas.whole, &mut metadata.extra);
            }
        }
        // LangGraph tells what changed only where there is a snapshot.
        *updated = Some(names).filter(|_| !deltas.whole.is_empty());
    }

    /// The nodes whose writes these are.
    fn writers(&self, updates: &[StateUpdate]) -> Result<Vec<Arc<str>>, RunError> {
        let nodes = &self.core.graph.nodes;
        let named = |name: &str| match nodes.get_key_value(name) {
            Some((name, _)) => Ok(name.clone()),
            None => Err(bad(format!("node {name:?} does not exist"))),
        };
        match updates {
            // The first write to a thread is its input.
            [StateUpdate { as_node: None, .. }] if self.saved.is_none() => {
                Ok(vec![reserved::START.into()])
            }
            [StateUpdate { as_node: None, .. }] => {
                let last = self.last_writer();
                let ambiguous = || bad("it is ambiguous whose write it is; specify as_node");
                Ok(vec![last.ok_or_else(ambiguous)?])
            }
            several => several
                .iter()
                .map(|update| match &update.as_node {
                    Some(name) => named(name),
                    None => Err(bad("as_node is required for each of several updates")),
                })
                .collect(),
        }
    }

    /// The node that ran last, by the versions that it has seen; `None` when several did.
    fn last_writer(&self) -> Option<Arc<str>> {
        let state = self.core.state.lock().unwrap();
        let mut seen: Vec<(&Arc<str>, &Arc<str>)> = state
            .checkpoint
            .versions_seen
            .iter()
            .filter(|(node, _)| self.core.graph.nodes.contains_key(*node))
            .flat_map(|(node, seen)| seen.values().map(move |version| (version, node)))
            .collect();
        seen.sort();
        match seen.as_slice() {
            [] => None,
            [.., (before, _), (last, _)] if before == last => None,
            [.., (_, node)] => Some((*node).clone()),
        }
    }

    fn apply_taskless(&self, state: &mut RunState) -> Result<(), RunError> {
        let writes: Writes = state
            .pending
            .iter()
            .filter(|write| &*write.task == reserved::NULL_TASK)
            .map(|write| (write.channel.clone(), write.value.clone()))
            .collect();
        match writes.is_empty() {
            true => Ok(()),
            false => self.apply(state, vec![from_input(&writes)]),
        }
    }

    fn apply(&self, state: &mut RunState, tasks: Vec<Contribution<'_>>) -> Result<(), RunError> {
        let RunState { checkpoint, channels, .. } = state;
        apply(&self.core.graph, checkpoint, channels, tasks, |highest| {
            self.core.next_version(highest)
        })?;
        Ok(())
    }

    /// The step of the checkpoint that is written to.
    fn step(&self) -> i64 {
        self.saved.as_ref().map_or(-1, |tuple| tuple.metadata.step)
    }

    async fn put(self, source: Source, step: i64, id_step: i64) -> Result<Arc<str>, RunError> {
        self.put_with(source, step, id_step, true).await
    }

    /// Stores the state as a checkpoint.
    async fn put_with(
        self,
        source: Source,
        step: i64,
        id_step: i64,
        reads_channels: bool,
    ) -> Result<Arc<str>, RunError> {
        let Editor { core, saved } = self;
        let (checkpoint, parent, new_versions, extra, claim) = {
            let mut state = core.state.lock().unwrap();
            let before = std::mem::take(&mut state.stored_versions);
            state.step = id_step;
            let whole = match reads_channels {
                true => std::mem::take(&mut state.deltas.whole),
                false => BTreeSet::new(),
            };
            let checkpoint = core.snapshot(&mut state, reads_channels, None, &whole);
            let new = core.new_versions(&checkpoint, &before, &whole);
            let extra = std::mem::take(&mut state.metadata.extra);
            (checkpoint, state.head.clone(), new, extra, core.next_claim(&mut state))
        };
        let metadata = Metadata {
            source,
            step,
            parents: saved.map_or_else(BTreeMap::new, |tuple| tuple.metadata.parents),
            extra,
        };
        let id = checkpoint.id.clone();
        let saver = core.saver.as_ref().ok_or(RunError::NoSaver)?;
        let key = core.key.clone();
        let fate = Fate::default();
        saver.put(Put { key, parent, checkpoint, metadata, new_versions, claim, fate }).await?;
        Ok(id)
    }
}
