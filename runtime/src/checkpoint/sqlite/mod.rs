//! Checkpoints in a SQLite file, in the very tables of langgraph-checkpoint-sqlite 3.1.0: Python
//! LangGraph can continue a thread that was written here, and the reverse.

mod connection;
mod history;
mod rows;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::codec::{encode, encode_checkpoint, encode_metadata};
use super::history::DeltaHistories;
use super::memory::{parent_id, point};
use super::saver::{ListFilter, Saver, SaverError, SaverResult};
use super::{ChannelVersions, Checkpoint, CheckpointTuple, Metadata, ThreadKey, reserved};
use crate::doors::{Doors, Operation};
use crate::value::Shared;
use connection::{Begin, Store, Transaction};
use rows::WriteRow;

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
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { synchronous: Synchronous::default(), busy_limit: Duration::from_secs(5) }
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

    fn put(
        &self,
        key: &ThreadKey,
        parent: Option<&str>,
        checkpoint: Checkpoint,
        metadata: Metadata,
        _new_versions: ChannelVersions,
    ) -> SaverResult<()> {
        let key = key.clone();
        let parent = parent_id(parent);
        let store = self.store.clone();
        Box::pin(async move {
            let blob = encode_checkpoint(&checkpoint)?;
            let metadata = encode_metadata(&metadata);
            let id = checkpoint.id;
            let point = point(Operation::SaverWrite, &key.thread, &id);
            // One statement is a transaction of its own.
            let put = store.call(point, move |connection| {
                rows::put(connection, &key, &id, parent.as_deref(), &blob, &metadata)
            });
            put.await
        })
    }

    fn put_writes(
        &self,
        key: &ThreadKey,
        checkpoint: &str,
        task: &str,
        _task_path: &str,
        writes: Vec<(Arc<str>, Shared)>,
    ) -> SaverResult<()> {
        let key = key.clone();
        let checkpoint: Arc<str> = checkpoint.into();
        let task: Arc<str> = task.into();
        let store = self.store.clone();
        Box::pin(async move {
            let replace = writes.iter().all(|(name, _)| reserved::fixed_index(name).is_some());
            let rows: Vec<WriteRow> =
                writes.iter().enumerate().map(write_row).collect::<Result<_, _>>()?;
            let point = point(Operation::SaverWrite, &key.thread, &checkpoint);
            let put = store.write(point, move |transaction| {
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
        let thread: Arc<str> = thread.into();
        let point = point(Operation::SaverWrite, &thread, "");
        self.store.write(point, move |transaction| rows::delete_thread(transaction, &thread))
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
