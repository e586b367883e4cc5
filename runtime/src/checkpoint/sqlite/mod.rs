//! Checkpoints in a SQLite file, in the very tables of langgraph-checkpoint-sqlite 3.1.0: Python
//! LangGraph can continue a thread that was written here, and the reverse.

mod claims;
mod connection;
mod history;
mod rows;
mod threads;

use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::codec::{encode, encode_checkpoint, encode_metadata};
use super::history::DeltaHistories;
use super::memory::{parent_id, point};
use super::saver::{Keep, LateWrites, ListFilter, Put, PutWrites, Saver, SaverError, SaverResult};
use super::{CheckpointTuple, ThreadKey, reserved};
use crate::doors::{Doors, Operation};
use crate::value::Shared;
use connection::{Begin, Store, Transaction};
use rows::{CheckpointRow, WriteRow};

/// How hard a commit is pushed towards the disk (SQLite's `PRAGMA synchronous`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Every commit waits for the disk: an acknowledged checkpoint outlives a power cut. Costs one
    /// fsync per put and per put_writes. SQLite's and Python's default.
    #[default]
    Full,
    /// The disk is waited for at WAL checkpoints only, so a commit is many times cheaper. An
    /// acknowledged checkpoint outlives the process, but a power cut may take back the last ones;
    /// the file stays intact.
    Normal,
}

/// Choices for [`SqliteSaver::open_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    pub synchronous: Synchronous,
    /// How long one call waits in all for other connections' locks before it fails.
    pub busy_limit: Duration,
    pub late_writes: LateWrites,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions {
            synchronous: Synchronous::default(),
            busy_limit: Duration::from_secs(5),
            late_writes: LateWrites::default(),
        }
    }
}

/// Keeps checkpoints in one SQLite file over one connection.
///
/// Calls on one saver queue for the connection in the order in which they arrive; several savers,
/// also of other processes and of Python, may have the same file open. A call runs to its end when
/// its future is dropped. Dropping the saver closes the file on the spot, which may block; see
/// [`SqliteSaver::close`].
pub struct SqliteSaver {
    store: Store,
}

impl SqliteSaver {
    /// Opens the file with the default options, making it and its tables where they are missing.
    pub fn open(
        path: &str,
        doors: &Doors,
    ) -> impl Future<Output = Result<Arc<SqliteSaver>, SaverError>> + Send + use<> {
        SqliteSaver::open_with(path, doors, SqliteOptions::default())
    }

    pub fn open_with(
        path: &str,
        doors: &Doors,
        options: SqliteOptions,
    ) -> impl Future<Output = Result<Arc<SqliteSaver>, SaverError>> + Send + use<> {
        let store = Store::new(path, doors, options);
        async move {
            store.open(options.synchronous).await?;
            Ok(Arc::new(SqliteSaver { store }))
        }
    }

    /// Closes the file after the calls that queue before this one, off the async workers. Closing
    /// the last connection of a file moves the WAL's content into it. Calls that come later fail.
    pub fn close(&self) -> SaverResult<()> {
        let store = self.store.clone();
        Box::pin(async move { store.close().await })
    }
}

impl Saver for SqliteSaver {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        let key = key.clone();
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        self.store.call(point, move |connection| {
            // One transaction: both reads see the same moment.
            let transaction = Transaction::begin(connection, Begin::Read)?;
            let tuple = rows::get_tuple(connection, &key, id.as_deref())?;
            transaction.commit()?;
            Ok(tuple)
        })
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        let thread: Arc<str> = thread.into();
        let namespace: Option<Arc<str>> = namespace.map(Arc::from);
        self.store.call(point(Operation::SaverRead, &thread, ""), move |connection| {
            let transaction = Transaction::begin(connection, Begin::Read)?;
            let tuples = rows::list(connection, &thread, namespace.as_deref(), &filter)?;
            transaction.commit()?;
            Ok(tuples)
        })
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        let store = self.store.clone();
        Box::pin(async move {
            let Put { key, parent, checkpoint, metadata, claim, .. } = put;
            let blob = encode_checkpoint(&checkpoint)?;
            let metadata = encode_metadata(&metadata);
            let (id, parent) = (checkpoint.id, parent_id(parent));
            let point = point(Operation::SaverWrite, &key.thread, &id);
            // One statement is a transaction of its own.
            let late_writes = store.late_writes;
            let put = store.call(point, move |connection| {
                let row = CheckpointRow {
                    key: &key,
                    id: &id,
                    parent: parent.as_deref(),
                    checkpoint: &blob,
                    metadata: &metadata,
                };
                row.put(connection, &claim, late_writes)
            });
            put.await
        })
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        let store = self.store.clone();
        Box::pin(async move {
            let PutWrites { key, checkpoint, task, writes, claim, .. } = put;
            let replace = writes.iter().all(|(name, _)| reserved::fixed_index(name).is_some());
            let rows: Vec<WriteRow> =
                writes.iter().enumerate().map(write_row).collect::<Result<_, _>>()?;
            let point = point(Operation::SaverWrite, &key.thread, &checkpoint);
            let late_writes = store.late_writes;
            let put = store.write(point, move |transaction| {
                claims::check_deletion(transaction, &key.thread, &claim, late_writes)?;
                rows::put_writes(transaction, &key, &checkpoint, &task, &rows, replace)
            });
            put.await
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
        // One statement is a transaction of its own.
        self.store.call(point, move |connection| {
            history::walk(connection, &key, id.as_deref(), &channels)
        })
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.prune(&[thread.into()], Keep::Nothing)
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        let (from, to): (Arc<str>, Arc<str>) = (from.into(), to.into());
        let point = point(Operation::SaverWrite, &to, "");
        self.store.write(point, move |transaction| threads::copy(transaction, &from, &to))
    }

    fn prune(&self, names: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        let Some(first) = names.first() else { return Box::pin(ready(Ok(()))) };
        let point = point(Operation::SaverWrite, first, "");
        let names = names.to_vec();
        let (clock, late_writes) = (self.store.doors.clock.clone(), self.store.late_writes);
        self.store.write(point, move |transaction| {
            names.iter().try_for_each(|name| match keep {
                Keep::Latest => threads::prune(transaction, name),
                Keep::Nothing => {
                    if late_writes == LateWrites::Refused {
                        claims::remember_deletion(transaction, name, clock.now())?;
                    }
                    threads::delete(transaction, name)
                }
            })
        })
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        let Some(first) = runs.first() else { return Box::pin(ready(Ok(()))) };
        let point = point(Operation::SaverWrite, first, "");
        let runs = runs.to_vec();
        self.store.write(point, move |transaction| threads::delete_runs(transaction, &runs))
    }
}

fn write_row(
    (position, (channel, value)): (usize, &(Arc<str>, Shared)),
) -> Result<WriteRow, SaverError> {
    let (type_name, bytes) = encode(value).map_err(|error| SaverError::Unstorable {
        channel: channel.to_string(),
        problem: error.to_string(),
    })?;
    let index = reserved::fixed_index(channel).unwrap_or(position as i64);
    Ok(WriteRow { index, channel: channel.clone(), type_name, bytes })
}
