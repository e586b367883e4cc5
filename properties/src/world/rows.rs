//! The stored rows, decoded here: the judge does not share the runtime's codec.

use std::collections::BTreeMap;

use durasim_runtime::Saver;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::ListFilter;
use rmpv::Value;
use rusqlite::Connection;

use crate::outcome::{StoredCheckpoint, StoredThread, StoredWrite};

/// The rows of a thread in a SQLite file. A file without the tables has no rows.
pub(super) fn from_sqlite(db: &Connection, thread: &str) -> Result<StoredThread, String> {
    let mut stored = StoredThread::default();
    if !has_tables(db).map_err(text)? {
        return Ok(stored);
    }
    let sql = "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata \
               FROM checkpoints WHERE thread_id = ?1 ORDER BY checkpoint_id, checkpoint_ns";
    let mut statement = db.prepare_cached(sql).map_err(text)?;
    let mut rows = statement.query([thread]).map_err(text)?;
    while let Some(row) = rows.next().map_err(text)? {
        let namespace = row.get(0).map_err(text)?;
        let id: String = row.get(1).map_err(text)?;
        let parent = row.get(2).map_err(text)?;
        let blob: Vec<u8> = row.get(3).map_err(text)?;
        let metadata: Vec<u8> = row.get(4).map_err(text)?;
        let metadata: serde_json::Value = serde_json::from_slice(&metadata).map_err(text)?;
        let checkpoint = rmpv::decode::read_value(&mut blob.as_slice()).map_err(text)?;
        let field = |name: &str| {
            let entries = checkpoint.as_map().into_iter().flatten();
            entries.clone().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
        };
        stored.checkpoints.push(StoredCheckpoint {
            namespace,
            id,
            parent,
            source: metadata["source"].as_str().unwrap_or_default().to_owned(),
            step: metadata["step"].as_i64().unwrap_or(i64::MIN),
            request: metadata["request_id"].as_str().map(str::to_owned),
            values: by_name(field("channel_values")),
            versions: texts(field("channel_versions")),
            versions_seen: by_name(field("versions_seen"))
                .into_iter()
                .map(|(node, seen)| (node, texts(Some(&seen))))
                .collect(),
        });
    }
    let sql = "SELECT checkpoint_ns, checkpoint_id, task_id, channel FROM writes \
               WHERE thread_id = ?1 ORDER BY checkpoint_id, checkpoint_ns, task_id, idx";
    let mut statement = db.prepare_cached(sql).map_err(text)?;
    let writes = statement.query_map([thread], |row| {
        Ok(StoredWrite {
            namespace: row.get(0)?,
            checkpoint: row.get(1)?,
            task: row.get(2)?,
            channel: row.get(3)?,
        })
    });
    stored.writes = writes.and_then(Iterator::collect).map_err(text)?;
    Ok(stored)
}

fn has_tables(db: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_master WHERE name IN ('checkpoints', 'writes')";
    db.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|count| count == 2)
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
                .map(|(node, seen)| (node.to_string(), names(seen)))
                .collect(),
        });
    }
    Ok(stored)
}

fn by_name(map: Option<&Value>) -> BTreeMap<String, Value> {
    let entries = map.and_then(Value::as_map).into_iter().flatten();
    entries.filter_map(|(k, v)| Some((k.as_str()?.to_owned(), v.clone()))).collect()
}

fn texts(map: Option<&Value>) -> BTreeMap<String, String> {
    let entries = by_name(map).into_iter();
    entries.filter_map(|(k, v)| Some((k, v.as_str()?.to_owned()))).collect()
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
