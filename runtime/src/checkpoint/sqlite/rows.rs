//! Statements and rows. Tables, keys and order are those of langgraph-checkpoint-sqlite 3.1.0.

use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Row, Statement, ToSql, params};

use super::connection::Failure;
use super::parent_id;
use crate::checkpoint::codec::{CodecError, decode, decode_checkpoint, decode_metadata};
use crate::checkpoint::saver::{ListFilter, SaverError};
use crate::checkpoint::{Checkpoint, CheckpointTuple, Metadata, PendingWrite, ThreadKey};

pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS checkpoints (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    type TEXT,
    checkpoint BLOB,
    metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE IF NOT EXISTS writes (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    type TEXT,
    value BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);";

/// What is asked of each table.
pub(super) const COLUMNS_OF: [(&str, &str); 2] = [
    (
        "checkpoints",
        "thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata",
    ),
    ("writes", "thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value"),
];

pub(super) const COLUMNS: &str = "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata \
     FROM checkpoints WHERE thread_id = ?";

/// The checkpoint with this id, or the one with the greatest: text order is time order.
pub(super) fn get_tuple(
    connection: &Connection,
    key: &ThreadKey,
    id: Option<&str>,
) -> Result<Option<CheckpointTuple>, Failure> {
    let rest = match id {
        Some(_) => "AND checkpoint_ns = ? AND checkpoint_id = ?",
        None => "AND checkpoint_ns = ? ORDER BY checkpoint_id DESC LIMIT 1",
    };
    let mut select = connection.prepare_cached(&format!("{COLUMNS} {rest}"))?;
    let mut rows = match id {
        Some(id) => select.query([&*key.thread, &*key.namespace, id])?,
        None => select.query([&*key.thread, &*key.namespace])?,
    };
    let Some(row) = rows.next()? else { return Ok(None) };
    let found = Found::read(row)?;
    let mut writes = select_writes(connection)?;
    Ok(Some(found.tuple(row, &key.thread, &mut writes)?))
}

pub(super) fn list(
    connection: &Connection,
    thread: &Arc<str>,
    namespace: Option<&str>,
    filter: &ListFilter,
) -> Result<Vec<CheckpointTuple>, Failure> {
    // JSON is compared here, after reading, as SQLite's own JSON would not tell true from 1. A
    // limit helps the database only where it decides alone which rows count.
    let limit = filter.limit.unwrap_or(usize::MAX);
    let sql_limit: Option<i64> =
        filter.metadata.is_empty().then(|| limit.try_into().ok()).flatten();
    let mut sql = COLUMNS.to_owned();
    let mut values: Vec<&dyn ToSql> = vec![thread];
    if let Some(namespace) = &namespace {
        sql += " AND checkpoint_ns = ?";
        values.push(namespace);
    }
    if let Some(before) = &filter.before {
        sql += " AND checkpoint_id < ?";
        values.push(before);
    }
    sql += " ORDER BY checkpoint_id DESC, checkpoint_ns";
    if let Some(limit) = &sql_limit {
        sql += " LIMIT ?";
        values.push(limit);
    }

    let mut select = connection.prepare_cached(&sql)?;
    let mut writes = select_writes(connection)?;
    let mut rows = select.query(&*values)?;
    let mut tuples = Vec::new();
    while tuples.len() < limit
        && let Some(row) = rows.next()?
    {
        let found = Found::read(row)?;
        if filter.metadata.is_empty() || filter.accepts(&found.metadata(row, thread)?) {
            tuples.push(found.tuple(row, thread, &mut writes)?);
        }
    }
    Ok(tuples)
}

/// The names in a row of `checkpoints`; the rest of it is decoded where it is.
pub(super) struct Found {
    namespace: Arc<str>,
    id: Arc<str>,
    parent: Option<Arc<str>>,
}

impl Found {
    fn read(row: &Row<'_>) -> Result<Found, Failure> {
        let parent: Option<Arc<str>> = row.get(2)?;
        Ok(Found { namespace: row.get(0)?, id: row.get(1)?, parent: parent_id(parent) })
    }

    /// Whole, without its writes.
    pub(super) fn read_checkpoint(
        row: &Row<'_>,
        thread: &str,
    ) -> Result<(Checkpoint, Metadata, Option<Arc<str>>), Failure> {
        let found = Found::read(row)?;
        Ok((found.checkpoint(row, thread)?, found.metadata(row, thread)?, found.parent))
    }

    fn corrupt(&self, thread: &str, part: impl Into<String>, problem: impl ToString) -> Failure {
        Failure::Saver(SaverError::Corrupt {
            thread: thread.to_owned(),
            checkpoint: self.id.to_string(),
            part: part.into(),
            problem: problem.to_string(),
        })
    }

    fn metadata(&self, row: &Row<'_>, thread: &str) -> Result<Metadata, Failure> {
        let read = bytes(row, 5).and_then(decode_metadata);
        read.map_err(|error| self.corrupt(thread, "metadata", error))
    }

    fn checkpoint(&self, row: &Row<'_>, thread: &str) -> Result<Checkpoint, Failure> {
        let read = decoded(row, 3, 4, &self.id);
        read.map_err(|problem| self.corrupt(thread, "checkpoint", problem))
    }

    fn writes(
        &self,
        select: &mut Statement<'_>,
        thread: &str,
    ) -> Result<Vec<PendingWrite>, Failure> {
        let mut rows = select.query([thread, &*self.namespace, &*self.id])?;
        let mut writes = Vec::new();
        while let Some(row) = rows.next()? {
            let (task, channel): (Arc<str>, Arc<str>) = (row.get(0)?, row.get(1)?);
            let read = type_name(row, 2).and_then(|type_name| decode(type_name, bytes(row, 3)?));
            let value = read.map_err(|error| {
                self.corrupt(thread, format!("channel {channel:?} of task {task}"), error)
            })?;
            writes.push(PendingWrite { task, channel, value: value.into() });
        }
        Ok(writes)
    }

    fn tuple(
        self,
        row: &Row<'_>,
        thread: &Arc<str>,
        writes: &mut Statement<'_>,
    ) -> Result<CheckpointTuple, Failure> {
        Ok(CheckpointTuple {
            checkpoint: self.checkpoint(row, thread)?,
            metadata: self.metadata(row, thread)?,
            writes: self.writes(writes, thread)?,
            key: ThreadKey { thread: thread.clone(), namespace: self.namespace },
            parent: self.parent,
        })
    }
}

fn select_writes(connection: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    connection.prepare_cached(
        "SELECT task_id, channel, type, value FROM writes \
         WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY task_id, idx",
    )
}

/// The checkpoint in the columns of its type and its bytes, which must have this id.
pub(super) fn decoded(
    row: &Row<'_>,
    type_column: usize,
    column: usize,
    id: &str,
) -> Result<Checkpoint, String> {
    let read = type_name(row, type_column).and_then(|type_name| match type_name {
        "msgpack" => decode_checkpoint(bytes(row, column)?),
        other => Err(CodecError::UnknownType(other.to_owned())),
    });
    let checkpoint = read.map_err(|error| error.to_string())?;
    match &*checkpoint.id == id {
        true => Ok(checkpoint),
        false => Err(format!("it says that it is checkpoint {}", checkpoint.id)),
    }
}

/// A cell's bytes. SQLite does not hold a column to its type, and older savers wrote metadata as
/// text.
pub(super) fn bytes<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], CodecError> {
    match row.get_ref_unwrap(column) {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(bytes),
        _ => Err(CodecError::NoBytes),
    }
}

pub(super) fn type_name<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, CodecError> {
    let unknown = |name: &str| CodecError::UnknownType(name.to_owned());
    row.get_ref_unwrap(column).as_str().map_err(|_| unknown(""))
}

/// One row of `checkpoints`, ready to be stored.
pub(super) struct CheckpointRow<'a> {
    pub(super) key: &'a ThreadKey,
    pub(super) id: &'a str,
    pub(super) parent: Option<&'a str>,
    pub(super) checkpoint: &'a [u8],
    pub(super) metadata: &'a [u8],
}

impl CheckpointRow<'_> {
    pub(super) fn put(&self, connection: &Connection) -> Result<(), Failure> {
        let CheckpointRow { key, id, parent, checkpoint, metadata } = self;
        let mut insert = connection.prepare_cached(
            "INSERT OR REPLACE INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, \
             parent_checkpoint_id, type, checkpoint, metadata) \
             VALUES (?, ?, ?, ?, 'msgpack', ?, ?)",
        )?;
        let (thread, namespace) = (&key.thread, &key.namespace);
        insert.execute(params![thread, namespace, id, parent, checkpoint, metadata])?;
        Ok(())
    }
}

/// One row of `writes`, ready to be stored.
pub(super) struct WriteRow {
    pub(super) index: i64,
    pub(super) channel: Arc<str>,
    pub(super) type_name: &'static str,
    pub(super) bytes: Vec<u8>,
}

macro_rules! insert_or {
    ($or:literal) => {
        concat!(
            "INSERT OR ",
            $or,
            " INTO writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, \
             value) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
    };
}

pub(super) fn put_writes(
    connection: &Connection,
    key: &ThreadKey,
    checkpoint: &str,
    task: &str,
    rows: &[WriteRow],
    replace: bool,
) -> Result<(), Failure> {
    let mut insert = connection.prepare_cached(match replace {
        true => insert_or!("REPLACE"),
        false => insert_or!("IGNORE"),
    })?;
    for WriteRow { index, channel, type_name, bytes } in rows {
        let (thread, namespace) = (&key.thread, &key.namespace);
        insert.execute(params![
            thread, namespace, checkpoint, task, index, channel, type_name, bytes
        ])?;
    }
    Ok(())
}
