//! Delta channels of a run: how their values come back from stored rows, when a checkpoint holds one
//! of them whole, and how exit durability keeps the writes of steps whose checkpoints are not stored.
//!
//! What LangGraph 1.2.9 does in `pregel/_checkpoint.py` and around `_put_checkpoint`. The counters
//! that say when a snapshot is due travel in the checkpoints' metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::core::{RunCore, RunState};
use crate::channels::{DeltaReducer, is_overwrite};
use crate::checkpoint::prune::COUNTERS;
use crate::checkpoint::saver::{Look, Saver, SaverError};
use crate::checkpoint::{
    CheckpointTuple, LAYOUT_VERSION, Metadata, PendingWrite, Source, ThreadKey, codec, reserved,
};
use crate::graph::GraphInner;
use crate::ordered::IndexMap;
use crate::profile::{DeltaRows, Durability};
use crate::value::Shared;

/// Values of delta channels, of those that a checkpoint holds and of those that it does not.
pub(crate) type Rebuilt = BTreeMap<Arc<str>, Shared>;

type Writes = Vec<(Arc<str>, Shared)>;

/// What a run keeps of its delta channels between two stored checkpoints.
#[derive(Default)]
pub(crate) struct Deltas {
    /// The checkpoint that the run started from, stored or not.
    pub anchor: Arc<str>,
    /// The anchor may have children: no rows of delta channels are put beside it.
    pub is_branched: bool,
    /// Those that the next stored checkpoint must hold whole.
    pub whole: BTreeSet<Arc<str>>,
    /// At exit durability, what the steps so far wrote.
    steps: Vec<StepWrite>,
}

struct StepWrite {
    step: i64,
    task: Arc<str>,
    channel: Arc<str>,
    value: Shared,
}

impl GraphInner {
    pub(crate) fn deltas(&self) -> impl Iterator<Item = (&Arc<str>, &DeltaReducer)> {
        self.channels.iter().filter_map(|(name, spec)| Some((name, spec.as_delta()?)))
    }

    pub(crate) fn is_delta(&self, channel: &str) -> bool {
        self.channels.get(channel).is_some_and(|spec| spec.as_delta().is_some())
    }
}

/// How often a checkpoint is looked for anew that was removed while it was read.
const MOST_LOADS: usize = 8;

/// A checkpoint, or the head, as [`Saver::look`] finds it, with the values of its delta channels. A thread that goes on and is
/// pruned between the reads has another head by then.
pub(crate) async fn load(
    graph: &GraphInner,
    saver: &Arc<dyn Saver>,
    key: &ThreadKey,
    id: Option<&str>,
) -> Result<(Look, Rebuilt), SaverError> {
    let mut loads = 1;
    loop {
        let look = saver.look(key, id).await?;
        match rebuild(graph, Some(saver), look.tuple.as_ref()).await {
            Err(SaverError::Removed { .. }) if loads < MOST_LOADS => loads += 1,
            rebuilt => return Ok((look, rebuilt?)),
        }
    }
}

/// The values of a loaded thread's delta channels, by one walk for all that the checkpoint does not
/// hold. A graph without such channels asks the saver nothing.
pub(crate) async fn rebuild(
    graph: &GraphInner,
    saver: Option<&Arc<dyn Saver>>,
    tuple: Option<&CheckpointTuple>,
) -> Result<Rebuilt, SaverError> {
    let mut rebuilt = Rebuilt::new();
    let (Some(saver), Some(tuple)) = (saver, tuple) else { return Ok(rebuilt) };
    let checkpoint = &tuple.checkpoint;
    // Whatever is loaded comes by here before its channels are opened.
    if checkpoint.layout < LAYOUT_VERSION {
        return Err(SaverError::OldLayout {
            thread: tuple.key.thread.to_string(),
            checkpoint: checkpoint.id.to_string(),
            layout: checkpoint.layout,
        });
    }
    let corrupt = |channel: &Arc<str>, problem: String| SaverError::Corrupt {
        thread: tuple.key.thread.to_string(),
        checkpoint: checkpoint.id.to_string(),
        part: format!("delta channel {channel:?}"),
        problem,
    };
    let held = |name: &Arc<str>, stored: &Shared| match codec::read_delta_snapshot(stored) {
        Ok(None) => Ok(stored.clone()),
        Ok(Some(value)) => Ok(Arc::new(value)),
        Err(error) => Err(corrupt(name, error.to_string())),
    };
    let mut absent = Vec::new();
    for (name, _) in graph.deltas() {
        match checkpoint.channel_values.get(name) {
            Some(stored) => drop(rebuilt.insert(name.clone(), held(name, stored)?)),
            None => absent.push(name.clone()),
        }
    }
    if absent.is_empty() {
        return Ok(rebuilt);
    }
    let id = Some(&*checkpoint.id);
    let mut histories = saver.get_delta_channel_history(&tuple.key, id, &absent).await?;
    if absent.iter().any(|name| !histories.contains_key(name)) {
        return Err(SaverError::Removed {
            thread: tuple.key.thread.to_string(),
            checkpoint: checkpoint.id.to_string(),
        });
    }
    for (name, reducer) in graph.deltas() {
        let Some(history) = histories.remove(name) else { continue };
        let seed = history.seed.map(|stored| held(name, &stored)).transpose()?;
        let writes: Vec<Shared> = history.writes.into_iter().map(|write| write.value).collect();
        let value = reducer.rebuild(seed, &writes);
        rebuilt.insert(name.clone(), value.map_err(|error| corrupt(name, error.to_string()))?);
    }
    Ok(rebuilt)
}

/// May a checkpoint that was named have children? Rows that come to stand beside it now would count
/// for them as well. Asked only where somebody minds.
pub(crate) async fn is_branched(
    graph: &GraphInner,
    saver: Option<&Arc<dyn Saver>>,
    tuple: Option<&CheckpointTuple>,
) -> Result<bool, SaverError> {
    let (Some(saver), Some(tuple)) = (saver, tuple) else { return Ok(false) };
    if graph.options.delta_rows == DeltaRows::Trusted || graph.deltas().next().is_none() {
        return Ok(false);
    }
    let head = saver.get_tuple(&tuple.key, None).await?;
    Ok(head.is_some_and(|head| head.checkpoint.id != tuple.checkpoint.id))
}

/// For each delta channel, the updates and the super-steps since its last snapshot.
pub(super) struct Counters(IndexMap<Arc<str>, (u64, u64)>);

impl Counters {
    pub fn read(graph: &GraphInner, metadata: &Metadata) -> Counters {
        let stored = metadata.extra.get(COUNTERS);
        let count = |name: &str, place: usize| {
            stored.and_then(|all| all.get(name)?.get(place)?.as_u64()).unwrap_or(0)
        };
        let of = |name: &Arc<str>| (name.clone(), (count(name, 0), count(name, 1)));
        Counters(graph.deltas().map(|(name, _)| of(name)).collect())
    }

    /// One super-step more.
    pub fn count(&mut self, updated: Option<&BTreeSet<Arc<str>>>) {
        for (name, (updates, steps)) in &mut self.0 {
            *steps += 1;
            *updates += u64::from(updated.is_some_and(|updated| updated.contains(name)));
        }
    }

    pub fn due(&self, graph: &GraphInner) -> BTreeSet<Arc<str>> {
        let is_due = |name: &str, reducer: &DeltaReducer| {
            self.0.get(name).is_some_and(|&(updates, steps)| reducer.is_due(updates, steps))
        };
        let due = graph.deltas().filter(|(name, reducer)| is_due(name, reducer));
        due.map(|(name, _)| name.clone()).collect()
    }

    /// Begins anew for the channels of which a snapshot is stored, and writes the rest in front of
    /// what else is known of a checkpoint.
    pub fn store(&self, whole: &BTreeSet<Arc<str>>, extra: &mut Map<String, Json>) {
        let rest = self.0.iter().filter(|&(name, count)| *count != (0, 0) && !whole.contains(name));
        let rest: Map<_, _> = rest
            .map(|(name, (updates, steps))| (name.to_string(), json!([updates, steps])))
            .collect();
        extra.shift_remove(COUNTERS);
        if !rest.is_empty() {
            extra.shift_insert(0, COUNTERS.to_owned(), Json::Object(rest));
        }
    }
}

impl Deltas {
    /// Of a run that starts from a checkpoint with these writes beside it.
    ///
    /// They are not all of one step: an input, a fork or an update leaves out what finished tasks of
    /// an unfinished step wrote, and a task that runs again keeps the rows of its first time. At exit
    /// durability those that are used are stored once more.
    pub fn of_loaded(graph: &GraphInner, anchor: &Arc<str>, pending: &[PendingWrite]) -> Deltas {
        let mut deltas = Deltas { anchor: anchor.clone(), ..Deltas::default() };
        if graph.options.delta_rows == DeltaRows::Checked {
            let rows = pending.iter().filter(|write| graph.is_delta(&write.channel));
            deltas.whole = rows.map(|write| write.channel.clone()).collect();
        }
        deltas
    }

    /// Takes a task's rows out of `writes` if some of them must not stand beside this checkpoint: who
    /// finds a part of them takes it for all that the task wrote. What only says how the task fared
    /// stays, as nobody takes that for a write: without its answers the task would ask again.
    pub fn keep_off(&mut self, graph: &GraphInner, checkpoint: &Arc<str>, writes: &mut Writes) {
        if self.is_branched && *checkpoint == self.anchor {
            let written = writes.iter().map(|(channel, _)| channel);
            let deltas: Vec<_> = written.filter(|name| graph.is_delta(name)).cloned().collect();
            if !deltas.is_empty() {
                writes.retain(|(channel, _)| reserved::fixed_index(channel).is_some());
                self.whole.extend(deltas);
            }
        }
    }

    /// Writes that get no rows: a walk would not find them, so the next checkpoint must hold their
    /// channels whole.
    pub fn note_rowless(&mut self, graph: &GraphInner, writes: &[(Arc<str>, Shared)]) {
        if graph.options.delta_rows == DeltaRows::Checked {
            let written = writes.iter().map(|(channel, _)| channel);
            self.whole.extend(written.filter(|name| graph.is_delta(name)).cloned());
        }
    }

    /// What the tasks of a step wrote.
    ///
    /// A walk cannot tell that an overwrite took the step's other writes with it, which LangGraph
    /// sees to. Nor does it know the order of the tasks: SQLite has no column for their paths, and at
    /// exit durability no saver is told.
    pub fn note<'w>(
        &mut self,
        graph: &GraphInner,
        tasks: impl Iterator<Item = &'w [(Arc<str>, Shared)]>,
    ) {
        let mut written: BTreeSet<&Arc<str>> = BTreeSet::new();
        for writes in tasks {
            let mine = || writes.iter().filter(|(channel, _)| graph.is_delta(channel));
            for (channel, value) in mine() {
                let is_shared =
                    graph.options.delta_rows == DeltaRows::Checked && written.contains(channel);
                if is_shared || is_overwrite(value) {
                    self.whole.insert(channel.clone());
                }
            }
            written.extend(mine().map(|(channel, _)| channel));
        }
    }
}

impl RunCore {
    /// A step was applied: what its tasks, and writes of no task before it, did to delta channels.
    pub(super) fn note_deltas(&self, state: &mut RunState) {
        let RunState { deltas, tasks, pending, step, .. } = state;
        deltas.note(&self.graph, tasks.values().map(|task| &*task.writes));
        if self.config.durability == Durability::Exit && self.saver.is_some() {
            let writes = pending.iter().filter(|write| self.graph.is_delta(&write.channel));
            deltas.steps.extend(writes.map(|write| StepWrite {
                step: *step,
                task: write.task.clone(),
                channel: write.channel.clone(),
                value: write.value.clone(),
            }));
        }
    }

    /// Which delta channels this checkpoint holds whole; the others' counters go into its metadata.
    pub(super) fn take_whole(
        &self,
        state: &mut RunState,
        counters: &Counters,
        is_stored: bool,
    ) -> BTreeSet<Arc<str>> {
        let mut whole = BTreeSet::new();
        if is_stored {
            whole = counters.due(&self.graph);
            whole.append(&mut state.deltas.whole);
        }
        counters.store(&whole, &mut state.metadata.extra);
        whole
    }

    /// Exit durability, before the one put: what the steps wrote is stored beside the checkpoint that
    /// the run started from. If that is not stored, an empty one is put for them to hang on.
    pub(super) fn submit_step_writes(self: &Arc<Self>, state: &mut RunState) {
        if state.deltas.is_branched {
            let written = state.deltas.steps.iter().map(|write| write.channel.clone());
            state.deltas.whole.extend(written);
        }
        let mut whole = Counters::read(&self.graph, &state.metadata).due(&self.graph);
        whole.extend(state.deltas.whole.iter().cloned());
        let mut groups: IndexMap<(i64, Arc<str>), Writes> = IndexMap::default();
        for write in std::mem::take(&mut state.deltas.steps) {
            if !whole.contains(&write.channel) {
                let rows = groups.entry((write.step, write.task)).or_default();
                rows.push((write.channel, write.value));
            }
        }
        if groups.is_empty() || self.saver.is_none() {
            return;
        }
        let anchor = state.deltas.anchor.clone();
        if state.loaded.is_none() {
            let mut checkpoint = super::resume::empty_checkpoint(&self.graph);
            checkpoint.id = anchor.clone();
            let metadata = Metadata {
                source: Source::Anchor,
                step: -2,
                parents: BTreeMap::new(),
                extra: self.config.metadata(),
            };
            state.head = Some(anchor.clone());
            self.chain_put(state, None, checkpoint, metadata, Default::default(), vec![]);
        }
        for ((step, task), writes) in groups {
            self.submit_rows(state, &anchor, &step_task_id(step, &task), String::new(), writes);
        }
    }
}

/// The id under which exit durability stores a task's writes: the step in place of the first group,
/// so that the text order of ids is the order of steps.
fn step_task_id(step: i64, task: &str) -> Arc<str> {
    let rest = task.split_once('-').map_or("", |(_, rest)| rest);
    format!("{step:08}-{rest}").into()
}

/// A delta channel's value as a checkpoint holds it. One that cannot be packed is left as it is, so
/// that the put says so, with the channel's name.
pub(super) fn whole_value(value: &Shared) -> Shared {
    codec::delta_snapshot_value(value).map_or_else(|_| value.clone(), Arc::new)
}

#[cfg(test)]
mod tests {
    use super::step_task_id;

    /// Left: langgraph 1.2.9, `exit_delta_task_id(step, task_id)`.
    #[test]
    fn ids_of_steps_are_those_of_python() {
        let task = "8f14e45f-ceea-167a-5a36-dedd4bea2543";
        for (python, step) in [
            ("00000000-ceea-167a-5a36-dedd4bea2543", 0),
            ("00000012-ceea-167a-5a36-dedd4bea2543", 12),
            ("-0000001-ceea-167a-5a36-dedd4bea2543", -1),
            ("123456789-ceea-167a-5a36-dedd4bea2543", 123_456_789),
        ] {
            assert_eq!(&*step_task_id(step, task), python);
        }
    }
}
