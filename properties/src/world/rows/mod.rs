//! The stored rows, decoded here: the judge does not share the runtime's codec.

mod checkpoint;
mod msgpack;
mod postgres;

use std::collections::BTreeMap;
use std::sync::Arc;

use durasim_runtime::Saver;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::ListFilter;
use durasim_sim::Disk;

pub(super) use postgres::from_postgres;

use super::database::{Cell, Database};
use crate::outcome::{StoredCheckpoint, StoredThread, StoredWrite};
use checkpoint::{Read, Reader};

/// Fills in what a SQLite file holds of these threads. No file and one without the tables have no
/// rows.
pub(super) fn from_sqlite(
    disk: &Disk,
    file: &str,
    threads: &mut BTreeMap<String, StoredThread>,
) -> Result<(), String> {
    let mut read = |main: &[u8], wal: &[u8], journal: &[u8]| {
        let Some(db) = Database::open(main, wal, journal)? else { return Ok(()) };
        read_checkpoints(&db, threads)?;
        read_writes(&db, threads)
    };
    let with = |suffix: &str, read: &mut dyn FnMut(&[u8]) -> Result<(), String>| {
        disk.with(&format!("{file}{suffix}"), |bytes| read(bytes.unwrap_or_default()))
    };
    with("", &mut |main| with("-wal", &mut |wal| with("-journal", &mut |old| read(main, wal, old))))
}

fn read_checkpoints(
    db: &Database<'_>,
    threads: &mut BTreeMap<String, StoredThread>,
) -> Result<(), String> {
    let Some(table) = db.table("checkpoints")? else { return Ok(()) };
    let of = |name| table.column(name);
    let thread = of("thread_id")?;
    let (namespace, id) = (of("checkpoint_ns")?, of("checkpoint_id")?);
    let parent = of("parent_checkpoint_id")?;
    let (blob, metadata) = (of("checkpoint")?, of("metadata")?);
    let mut reader = Reader::default();
    db.rows(&table, &mut |row| {
        let cell = |at| row.get(at).copied().unwrap_or(Cell::Null);
        let Some(stored) = threads.get_mut(cell(thread).text()?) else { return Ok(()) };
        let metadata: Metadata = serde_json::from_slice(cell(metadata).bytes()?).map_err(text)?;
        let Read { values, versions, versions_seen } = reader.read(cell(blob).bytes()?)?;
        stored.checkpoints.push(StoredCheckpoint {
            namespace: cell(namespace).text()?.to_owned(),
            id: cell(id).text()?.to_owned(),
            parent: match cell(parent) {
                Cell::Null => None,
                parent => Some(parent.text()?.to_owned()),
            },
            source: metadata.source.as_str().unwrap_or_default().to_owned(),
            step: metadata.step.as_i64().unwrap_or(i64::MIN),
            request: metadata.request_id.as_str().map(str::to_owned),
            values,
            versions,
            versions_seen,
        });
        Ok(())
    })?;
    for stored in threads.values_mut() {
        stored.checkpoints.sort_by(|a, b| (&a.id, &a.namespace).cmp(&(&b.id, &b.namespace)));
    }
    Ok(())
}

fn read_writes(
    db: &Database<'_>,
    threads: &mut BTreeMap<String, StoredThread>,
) -> Result<(), String> {
    let Some(table) = db.table("writes")? else { return Ok(()) };
    let of = |name| table.column(name);
    let thread = of("thread_id")?;
    let (namespace, checkpoint) = (of("checkpoint_ns")?, of("checkpoint_id")?);
    let (task, index, channel) = (of("task_id")?, of("idx")?, of("channel")?);
    let mut found: BTreeMap<&str, Vec<(StoredWrite, i64)>> =
        threads.keys().map(|thread| (thread.as_str(), Vec::new())).collect();
    db.rows(&table, &mut |row| {
        let cell = |at| row.get(at).copied().unwrap_or(Cell::Null);
        let Some(writes) = found.get_mut(cell(thread).text()?) else { return Ok(()) };
        let write = StoredWrite {
            namespace: cell(namespace).text()?.to_owned(),
            checkpoint: cell(checkpoint).text()?.to_owned(),
            task: cell(task).text()?.to_owned(),
            channel: cell(channel).text()?.to_owned(),
        };
        writes.push((write, cell(index).integer()?));
        Ok(())
    })?;
    let found: Vec<_> = found.into_values().collect();
    for (stored, mut writes) in threads.values_mut().zip(found) {
        writes.sort_by(|(a, nth_a), (b, nth_b)| {
            let place = (&a.checkpoint, &a.namespace, &a.task, nth_a);
            place.cmp(&(&b.checkpoint, &b.namespace, &b.task, nth_b))
        });
        stored.writes = writes.into_iter().map(|(write, _)| write).collect();
    }
    Ok(())
}

/// What is judged of a checkpoint's metadata.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct Metadata {
    source: serde_json::Value,
    step: serde_json::Value,
    request_id: serde_json::Value,
}

/// What a memory saver holds of a thread. It has no rows, so it is asked.
pub(super) async fn from_memory(saver: &MemorySaver, thread: &str) -> Result<StoredThread, String> {
    let mut stored = StoredThread::default();
    let mut tuples = saver.list(thread, None, ListFilter::default()).await.map_err(text)?;
    tuples.reverse();
    for tuple in tuples {
        let checkpoint = tuple.checkpoint;
        let names = |versions: &durasim_runtime::checkpoint::ChannelVersions| {
            versions.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
        };
        let namespace = tuple.key.namespace.to_string();
        stored.writes.extend(tuple.writes.iter().map(|write| StoredWrite {
            namespace: namespace.clone(),
            checkpoint: checkpoint.id.to_string(),
            task: write.task.to_string(),
            channel: write.channel.to_string(),
        }));
        stored.checkpoints.push(StoredCheckpoint {
            namespace,
            id: checkpoint.id.to_string(),
            parent: tuple.parent.map(|id| id.to_string()),
            source: tuple.metadata.source.name().to_owned(),
            step: tuple.metadata.step,
            request: tuple
                .metadata
                .extra
                .get("request_id")
                .and_then(|id| id.as_str())
                .map(Into::into),
            values: checkpoint
                .channel_values
                .iter()
                .map(|(name, value)| (name.to_string(), (**value).clone()))
                .collect(),
            versions: names(&checkpoint.channel_versions),
            versions_seen: checkpoint
                .versions_seen
                .iter()
                .map(|(node, seen)| (node.to_string(), Arc::new(names(seen))))
                .collect(),
        });
    }
    Ok(stored)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
