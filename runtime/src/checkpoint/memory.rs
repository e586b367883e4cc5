//! Checkpoints in memory. They die with their process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;

use super::codec::without_nul;
use super::history::{DeltaHistories, Walk};
use super::late;
use super::prune::InPart;
use super::saver::{
    Claim, Keep, LateWrites, ListFilter, Look, Put, PutWrites, Saver, SaverError, SaverResult,
};
use super::{Checkpoint, CheckpointTuple, Metadata, PendingWrite, ThreadKey, reserved};
use crate::doors::{Doors, Gate, Operation, Point};
use crate::value::Shared;

/// Keeps checkpoints as they are, values shared with the run that wrote them.
///
/// Differences from the SQLite saver are LangGraph's own: pending writes come back by task path,
/// then task id, then index; and a special channel's row is replaced in any call, also beside
/// regular writes. Unlike Python's memory saver, it takes values that could not be serialized.
#[derive(Clone)]
pub struct MemorySaver {
    gate: Gate,
    late_writes: LateWrites,
    store: Arc<Mutex<Store>>,
}

#[derive(Default)]
struct Store {
    threads: BTreeMap<Arc<str>, Thread>,
    /// What is remembered of threads that were deleted.
    deletions: BTreeMap<Arc<str>, u32>,
}

#[derive(Default, Clone)]
struct Thread {
    /// By namespace, then id.
    checkpoints: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Kept>>,
    /// By namespace and id of the checkpoint they hang on, which may come later or never.
    writes: BTreeMap<(Arc<str>, Arc<str>), Rows>,
}

#[derive(Clone)]
struct Kept {
    checkpoint: Checkpoint,
    metadata: Metadata,
    parent: Option<Arc<str>>,
}

/// Rows by task id and index.
type Rows = BTreeMap<(Arc<str>, i64), Row>;

#[derive(Clone)]
struct Row {
    task_path: Arc<str>,
    channel: Arc<str>,
    value: Shared,
}

impl MemorySaver {
    pub fn new(doors: &Doors) -> MemorySaver {
        MemorySaver::with(doors, LateWrites::default())
    }

    pub fn with(doors: &Doors, late_writes: LateWrites) -> MemorySaver {
        MemorySaver { gate: doors.gate.clone(), late_writes, store: Arc::default() }
    }

    /// Passes the gate, then does `work` on the store in one go.
    fn at_point<T: Send + 'static>(
        &self,
        point: Point,
        work: impl FnOnce(&mut Store) -> Result<T, SaverError> + Send + 'static,
    ) -> SaverResult<T> {
        let (gate, store) = (self.gate.clone(), self.store.clone());
        Box::pin(async move {
            let _pass = gate.pass(|| point).await;
            // What is changed is checked before and does not fail, so that a panic elsewhere leaves
            // nothing half done.
            work(&mut store.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }
}

impl Store {
    fn delete(&mut self, thread: &Arc<str>, late_writes: LateWrites) {
        self.threads.remove(thread);
        if late_writes == LateWrites::Refused {
            *self.deletions.entry(thread.clone()).or_default() += 1;
        }
    }

    fn deletions(&self, thread: &str) -> u32 {
        self.deletions.get(thread).copied().unwrap_or_default()
    }

    fn check(&self, thread: &str, claim: &Claim) -> Result<(), SaverError> {
        late::check(thread, claim, self.deletions(thread))
    }

    fn find(&self, key: &ThreadKey, id: Option<&str>) -> Option<CheckpointTuple> {
        let thread = self.threads.get(&key.thread)?;
        let checkpoints = thread.checkpoints.get(&key.namespace)?;
        let kept = match id {
            Some(id) => checkpoints.get(id)?,
            None => checkpoints.last_key_value()?.1,
        };
        Some(thread.tuple(&key.thread, &key.namespace, kept))
    }
}

impl Thread {
    fn is_empty(&self) -> bool {
        self.checkpoints.values().all(BTreeMap::is_empty) && self.writes.is_empty()
    }

    /// Of a namespace keeps only what its newest checkpoint cannot do without.
    fn prune(&mut self, namespace: &Arc<str>) {
        let Some(checkpoints) = self.checkpoints.get_mut(namespace) else { return };
        let Some(newest) = checkpoints.last_key_value().map(|(id, _)| id.clone()) else { return };
        let needed = needed(checkpoints);
        checkpoints.retain(|id, _| needed.contains(id));
        // Writes may stand beside a checkpoint that is yet to come.
        self.writes.retain(|(of, id), _| of != namespace || *id > newest || needed.contains(id));
    }

    /// Removes the checkpoints of a namespace that `keeps` does not want, and what hangs on them.
    fn retain(&mut self, namespace: &Arc<str>, keeps: impl Fn(&Arc<str>, &Kept) -> bool) {
        let Some(checkpoints) = self.checkpoints.get_mut(namespace) else { return };
        checkpoints.retain(|id, kept| {
            let stays = keeps(id, kept);
            if !stays {
                self.writes.remove(&(namespace.clone(), id.clone()));
            }
            stays
        });
    }

    fn tuple(&self, thread: &Arc<str>, namespace: &Arc<str>, kept: &Kept) -> CheckpointTuple {
        CheckpointTuple {
            key: ThreadKey { thread: thread.clone(), namespace: namespace.clone() },
            checkpoint: kept.checkpoint.clone(),
            metadata: kept.metadata.clone(),
            parent: kept.parent.clone(),
            writes: self.writes(namespace, &kept.checkpoint.id, |_| true),
        }
    }

    /// The rows beside a checkpoint whose channel is `wanted`.
    fn writes(
        &self,
        namespace: &Arc<str>,
        checkpoint: &Arc<str>,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<PendingWrite> {
        let rows = self.writes.get(&(namespace.clone(), checkpoint.clone()));
        let rows = rows.into_iter().flatten();
        let mut rows: Vec<_> = rows.filter(|(_, row)| wanted(&row.channel)).collect();
        rows.sort_by_key(|&((task, index), row)| (&row.task_path, task, index));
        let write = |((task, _), row): (&(Arc<str>, i64), &Row)| PendingWrite {
            task: task.clone(),
            channel: row.channel.clone(),
            value: row.value.clone(),
        };
        rows.into_iter().map(write).collect()
    }
}

/// The newest checkpoint of a namespace and what it cannot do without.
fn needed(checkpoints: &BTreeMap<Arc<str>, Kept>) -> BTreeSet<Arc<str>> {
    let mut needed = BTreeSet::new();
    let Some((id, newest)) = checkpoints.last_key_value() else { return needed };
    let mut in_part = InPart::of(&newest.checkpoint, &newest.metadata);
    needed.insert(id.clone());
    let mut next = newest.parent.as_ref();
    while let Some(id) = next.take_if(|_| !in_part.is_empty()) {
        let Some(ancestor) = checkpoints.get(id) else { break };
        // One that was seen before is its own ancestor.
        if !needed.insert(id.clone()) {
            break;
        }
        in_part.visit(&ancestor.checkpoint);
        next = ancestor.parent.as_ref();
    }
    needed
}

impl Saver for MemorySaver {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        let key = key.clone();
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        self.at_point(point, move |store| Ok(store.find(&key, id.as_deref())))
    }

    fn look(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Look> {
        let key = key.clone();
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        let counts = self.late_writes == LateWrites::Refused;
        self.at_point(point, move |store| {
            let deletions = counts.then(|| store.deletions(&key.thread));
            Ok(Look { tuple: store.find(&key, id.as_deref()), deletions })
        })
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        let name: Arc<str> = thread.into();
        let namespace: Option<Arc<str>> = namespace.map(Arc::from);
        self.at_point(point(Operation::SaverRead, &name, ""), move |store| {
            let Some(thread) = store.threads.get(&name) else { return Ok(Vec::new()) };
            let mut found: Vec<_> = thread
                .checkpoints
                .iter()
                .filter(|(of, _)| namespace.as_ref().is_none_or(|wanted| wanted == *of))
                .flat_map(|(of, checkpoints)| checkpoints.iter().map(move |(id, k)| (id, of, k)))
                .filter(|(id, ..)| filter.before.as_ref().is_none_or(|before| *id < before))
                .filter(|(.., kept)| filter.accepts(&kept.metadata))
                .collect();
            found.sort_by_key(|&(id, of, _)| (Reverse(id), of));
            found.truncate(filter.limit.unwrap_or(usize::MAX));
            Ok(found.iter().map(|(_, of, kept)| thread.tuple(&name, of, kept)).collect())
        })
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        let Put { key, parent, checkpoint, metadata, claim, .. } = put;
        let metadata = without_nul(&metadata).into_owned();
        let id = checkpoint.id.clone();
        let kept = Kept { checkpoint, metadata, parent: parent_id(parent) };
        self.at_point(point(Operation::SaverWrite, &key.thread, &id), move |store| {
            store.check(&key.thread, &claim)?;
            let thread = store.threads.get(&key.thread);
            let checkpoints = thread.and_then(|thread| thread.checkpoints.get(&key.namespace));
            let head = checkpoints.and_then(|checkpoints| checkpoints.last_key_value());
            let (head, parent) = (head.map(|(id, _)| &**id), kept.parent.as_deref());
            let same = checkpoints.and_then(|checkpoints| checkpoints.get(&id));
            if same.is_none_or(|same| same.parent != kept.parent) {
                late::check_head(&key.thread, &claim, &kept.checkpoint.id, parent, head)?;
            }
            let thread = store.threads.entry(key.thread).or_default();
            thread.checkpoints.entry(key.namespace).or_default().insert(id, kept);
            Ok(())
        })
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        let PutWrites { key, checkpoint, task, task_path, writes, claim, .. } = put;
        let point = point(Operation::SaverWrite, &key.thread, &checkpoint);
        self.at_point(point, move |store| {
            store.check(&key.thread, &claim)?;
            // No rows leave nothing, not even the name of a thread.
            if writes.is_empty() {
                return Ok(());
            }
            let thread = store.threads.entry(key.thread).or_default();
            let rows = thread.writes.entry((key.namespace, checkpoint)).or_default();
            for (position, (channel, value)) in writes.into_iter().enumerate() {
                let fixed = reserved::fixed_index(&channel);
                let at = (task.clone(), fixed.unwrap_or(position as i64));
                if fixed.is_some() || !rows.contains_key(&at) {
                    rows.insert(at, Row { task_path: task_path.clone(), channel, value });
                }
            }
            Ok(())
        })
    }

    fn get_delta_channel_history<'a>(
        &'a self,
        key: &ThreadKey,
        id: Option<&str>,
        channels: &[Arc<str>],
    ) -> BoxFuture<'a, Result<DeltaHistories, SaverError>> {
        let (key, channels) = (key.clone(), channels.to_vec());
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        self.at_point(point, move |store| {
            let mut walk = Walk::new(&channels);
            let none = || Ok(DeltaHistories::new());
            let Some(thread) = store.threads.get(&key.thread) else { return none() };
            let Some(kept) = thread.checkpoints.get(&key.namespace) else { return none() };
            let target = match id {
                Some(id) => kept.get_key_value(&id),
                None => kept.last_key_value(),
            };
            let Some((target, Kept { parent, .. })) = target else { return none() };
            // One that comes again is its own ancestor: it would hold the walk for ever.
            let mut seen = BTreeSet::from([target]);
            let mut next = parent.as_ref();
            while let Some(id) = next.take_if(|id| !walk.is_over() && seen.insert(id)) {
                let Some(ancestor) = kept.get(id) else { break };
                let writes = thread.writes(&key.namespace, id, |channel| walk.wants(channel));
                walk.visit(&ancestor.checkpoint.channel_values, writes.into_iter());
                next = ancestor.parent.as_ref();
            }
            Ok(walk.end())
        })
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        let thread: Arc<str> = thread.into();
        let late_writes = self.late_writes;
        self.at_point(point(Operation::SaverWrite, &thread, ""), move |store| {
            store.delete(&thread, late_writes);
            Ok(())
        })
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        let (from, to): (Arc<str>, Arc<str>) = (from.into(), to.into());
        self.at_point(point(Operation::SaverWrite, &to, ""), move |store| {
            if store.threads.contains_key(&to) {
                return Err(SaverError::Occupied { thread: to.to_string() });
            }
            if let Some(copy) = store.threads.get(&from).cloned() {
                store.threads.insert(to, copy);
            }
            Ok(())
        })
    }

    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        let Some(first) = threads.first() else { return Box::pin(ready(Ok(()))) };
        let late_writes = self.late_writes;
        let point = point(Operation::SaverWrite, first, "");
        let names = threads.to_vec();
        self.at_point(point, move |store| {
            for name in &names {
                match (keep, store.threads.get_mut(name)) {
                    (Keep::Nothing, _) => store.delete(name, late_writes),
                    (Keep::Latest, None) => {}
                    (Keep::Latest, Some(thread)) => {
                        let namespaces: Vec<_> = thread.checkpoints.keys().cloned().collect();
                        namespaces.iter().for_each(|namespace| thread.prune(namespace));
                    }
                }
            }
            Ok(())
        })
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        let Some(first) = runs.first() else { return Box::pin(ready(Ok(()))) };
        let point = point(Operation::SaverWrite, first, "");
        let runs = runs.to_vec();
        self.at_point(point, move |store| {
            let is_of_these = |kept: &Kept| {
                let run = kept.metadata.extra.get("run_id").and_then(serde_json::Value::as_str);
                run.is_some_and(|run| runs.iter().any(|of| **of == *run))
            };
            for thread in store.threads.values_mut() {
                let namespaces: Vec<_> = thread.checkpoints.keys().cloned().collect();
                for namespace in namespaces {
                    thread.retain(&namespace, |_, kept| !is_of_these(kept));
                }
            }
            store.threads.retain(|_, thread| !thread.is_empty());
            Ok(())
        })
    }
}

/// The point at which a saver's call is held. Savers do not know the run that calls them, so the
/// thread stands for the actor.
pub(super) fn point(operation: Operation, thread: &Arc<str>, id: &str) -> Point {
    Point { actor: thread.clone(), operation, key: thread.clone(), id: id.into() }
}

/// A parent's id; LangGraph takes an empty one for none.
pub(super) fn parent_id(parent: Option<Arc<str>>) -> Option<Arc<str>> {
    parent.filter(|id| !id.is_empty())
}
