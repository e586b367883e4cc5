//! Checkpoints in memory. They die with their process.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;

use super::codec::without_nul;
use super::history::{DeltaHistories, Walk};
use super::saver::{ListFilter, Saver, SaverError, SaverResult};
use super::{
    ChannelVersions, Checkpoint, CheckpointTuple, Metadata, PendingWrite, ThreadKey, reserved,
};
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
    threads: Arc<Mutex<Threads>>,
}

type Threads = BTreeMap<Arc<str>, Thread>;

#[derive(Default)]
struct Thread {
    /// By namespace, then id.
    checkpoints: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Kept>>,
    /// By namespace and id of the checkpoint they hang on, which may come later or never.
    writes: BTreeMap<(Arc<str>, Arc<str>), Rows>,
}

struct Kept {
    checkpoint: Checkpoint,
    metadata: Metadata,
    parent: Option<Arc<str>>,
}

/// Rows by task id and index.
type Rows = BTreeMap<(Arc<str>, i64), Row>;

struct Row {
    task_path: Arc<str>,
    channel: Arc<str>,
    value: Shared,
}

impl MemorySaver {
    pub fn new(doors: &Doors) -> MemorySaver {
        MemorySaver { gate: doors.gate.clone(), threads: Arc::default() }
    }

    /// Passes the gate, then does `work` on the store in one go.
    fn at_point<T: Send + 'static>(
        &self,
        point: Point,
        work: impl FnOnce(&mut Threads) -> T + Send + 'static,
    ) -> SaverResult<T> {
        let MemorySaver { gate, threads } = self.clone();
        Box::pin(async move {
            let _pass = gate.pass(|| point).await;
            Ok(work(&mut lock(&threads)))
        })
    }
}

/// Every change is a single insertion, so a panic elsewhere leaves nothing half done.
fn lock(threads: &Mutex<Threads>) -> MutexGuard<'_, Threads> {
    threads.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Thread {
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

impl Saver for MemorySaver {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        let key = key.clone();
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        self.at_point(point, move |threads| {
            let thread = threads.get(&key.thread)?;
            let checkpoints = thread.checkpoints.get(&key.namespace)?;
            let kept = match id {
                Some(id) => checkpoints.get(&id)?,
                None => checkpoints.last_key_value()?.1,
            };
            Some(thread.tuple(&key.thread, &key.namespace, kept))
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
        self.at_point(point(Operation::SaverRead, &name, ""), move |threads| {
            let Some(thread) = threads.get(&name) else { return Vec::new() };
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
            found.iter().map(|(_, of, kept)| thread.tuple(&name, of, kept)).collect()
        })
    }

    fn put(
        &self,
        key: &ThreadKey,
        parent: Option<&str>,
        checkpoint: Checkpoint,
        metadata: Metadata,
        _new_versions: ChannelVersions,
    ) -> SaverResult<()> {
        let key = key.clone();
        let metadata = without_nul(&metadata).into_owned();
        let id = checkpoint.id.clone();
        let kept = Kept { checkpoint, metadata, parent: parent_id(parent) };
        self.at_point(point(Operation::SaverWrite, &key.thread, &id), move |threads| {
            let thread = threads.entry(key.thread).or_default();
            thread.checkpoints.entry(key.namespace).or_default().insert(id, kept);
        })
    }

    fn put_writes(
        &self,
        key: &ThreadKey,
        checkpoint: &str,
        task: &str,
        task_path: &str,
        writes: Vec<(Arc<str>, Shared)>,
    ) -> SaverResult<()> {
        let key = key.clone();
        let checkpoint: Arc<str> = checkpoint.into();
        let (task, task_path): (Arc<str>, Arc<str>) = (task.into(), task_path.into());
        let point = point(Operation::SaverWrite, &key.thread, &checkpoint);
        self.at_point(point, move |threads| {
            let thread = threads.entry(key.thread).or_default();
            let rows = thread.writes.entry((key.namespace, checkpoint)).or_default();
            for (position, (channel, value)) in writes.into_iter().enumerate() {
                let fixed = reserved::fixed_index(&channel);
                let at = (task.clone(), fixed.unwrap_or(position as i64));
                if fixed.is_some() || !rows.contains_key(&at) {
                    rows.insert(at, Row { task_path: task_path.clone(), channel, value });
                }
            }
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
        self.at_point(point, move |threads| {
            let mut walk = Walk::new(&channels);
            let Some(thread) = threads.get(&key.thread) else { return walk.end() };
            let Some(kept) = thread.checkpoints.get(&key.namespace) else { return walk.end() };
            let target = match id {
                Some(id) => kept.get(&id),
                None => kept.last_key_value().map(|(_, kept)| kept),
            };
            let mut next = target.and_then(|kept| kept.parent.as_ref());
            while let Some(id) = next.take_if(|_| !walk.is_over()) {
                let Some(ancestor) = kept.get(id) else { break };
                let writes = thread.writes(&key.namespace, id, |channel| walk.wants(channel));
                walk.visit(&ancestor.checkpoint, writes.into_iter());
                next = ancestor.parent.as_ref();
            }
            walk.end()
        })
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        let thread: Arc<str> = thread.into();
        self.at_point(point(Operation::SaverWrite, &thread, ""), move |threads| {
            threads.remove(&thread);
        })
    }
}

/// The point at which a saver's call is held. Savers do not know the run that calls them, so the
/// thread stands for the actor.
pub(super) fn point(operation: Operation, thread: &Arc<str>, id: &str) -> Point {
    Point { actor: thread.clone(), operation, key: thread.clone(), id: id.into() }
}

/// A parent's id; LangGraph takes an empty one for none.
pub(super) fn parent_id(parent: Option<&str>) -> Option<Arc<str>> {
    parent.filter(|id| !id.is_empty()).map(Arc::from)
}
