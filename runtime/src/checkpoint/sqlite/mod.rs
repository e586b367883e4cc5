//! Checkpoints in a SQLite file, in the very tables of langgraph-checkpoint-sqlite 3.1.0: Python
//! LangGraph can continue a thread that was written here, and the reverse.

mod call;
mod claims;
mod commit;
mod connection;
mod history;
mod problem;
mod queue;
mod rows;
mod threads;

use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::codec::{encode, encode_checkpoint_with, encode_metadata};
use super::history::DeltaHistories;
use super::memory::{parent_id, point};
use super::saver::{
    Fate, Keep, Landing, LateWrites, ListFilter, Look, Put, PutWrites, Saver, SaverError,
    SaverResult,
};
use super::{CheckpointTuple, ThreadKey, reserved};
use crate::doors::{Doors, Operation, Point};
use crate::value::Shared;
use call::{Call, End, Kind};
use connection::{Begin, Failure, OpenFile, Transaction};
pub use problem::FileProblem;
use queue::Queue;
use rows::{CheckpointRow, WriteRow};

/// How hard a commit is pushed towards the disk (SQLite's `PRAGMA synchronous`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Every commit waits for the disk: an acknowledged checkpoint outlives a power cut. Costs one
    /// fsync a commit, which all share who wait at the time. SQLite's and Python's default.
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
    /// How long one call waits in all for other connections' locks before it fails. A turn that comes
    /// within [`Turn::LONGEST_WAIT`](crate::doors::Turn::LONGEST_WAIT) is not counted.
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
/// Writes land in the order in which they were submitted, that is, first polled and let through by
/// the gate; all that wait at the same time share one commit, and each is answered after it, with an
/// error of its own if it failed. A write that was submitted runs to its end when its future is
/// dropped. A read sees everything that was acknowledged before it.
///
/// Several savers may have the same file open, in this process or in others, also Python's. Those of
/// one process write one at a time and take turns at it ([`Opener::turn`]); only one that keeps the
/// file for long is waited for as other processes are ([`SqliteOptions::busy_limit`]). Dropping the
/// saver closes the file when what was submitted is done, off the async workers; whoever wants to know
/// when, calls [`SqliteSaver::close`].
///
/// [`Opener::turn`]: crate::doors::Opener::turn
pub struct SqliteSaver {
    queue: Queue,
    late_writes: LateWrites,
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
        let queue = Queue::new(path, doors, options.busy_limit);
        async move {
            queue.open(options).await?;
            Ok(Arc::new(SqliteSaver { queue, late_writes: options.late_writes }))
        }
    }

    /// Closes the file after the calls that queue before this one, off the async workers. Closing
    /// the last connection of a file moves the WAL's content into it. Calls that come later fail.
    pub fn close(&self) -> SaverResult<()> {
        let queue = self.queue.clone();
        Box::pin(async move {
            let (call, end) = Call::close();
            queue.push(call);
            end.told().await
        })
    }

    /// Passes the gate and queues a call.
    fn submit<T: Send + 'static>(
        &self,
        kind: Kind,
        fate: Fate,
        point: Point,
        work: impl FnMut(&OpenFile) -> Result<T, Failure> + Send + 'static,
    ) -> BoxFuture<'static, End<T>> {
        let queue = self.queue.clone();
        Box::pin(async move {
            let pass = queue.doors().gate.pass(|| point).await;
            let (call, end) = Call::new(kind, fate, pass, work);
            queue.push(call);
            end
        })
    }

    fn read<T: Send + 'static>(
        &self,
        point: Point,
        work: impl FnMut(&OpenFile) -> Result<T, Failure> + Send + 'static,
    ) -> SaverResult<T> {
        let submitted = self.submit(Kind::Read, Fate::default(), point, work);
        Box::pin(async move { submitted.await.told().await })
    }

    fn change(
        &self,
        point: Point,
        work: impl FnMut(&OpenFile) -> Result<(), Failure> + Send + 'static,
    ) -> SaverResult<()> {
        let submitted = self.submit(Kind::Write, Fate::default(), point, work);
        Box::pin(async move { submitted.await.told().await })
    }
}

impl Saver for SqliteSaver {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        let key = key.clone();
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        self.read(point, move |file| {
            // One transaction: both reads see the same moment.
            let transaction = Transaction::begin(&file.connection, Begin::Read)?;
            let tuple = rows::get_tuple(&file.connection, &key, id.as_deref())?;
            transaction.commit()?;
            Ok(tuple)
        })
    }

    fn look(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Look> {
        let key = key.clone();
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        let counts = self.late_writes == LateWrites::Refused;
        self.read(point, move |file| {
            let transaction = Transaction::begin(&file.connection, Begin::Read)?;
            file.deletions.begin();
            let tuple = rows::get_tuple(&file.connection, &key, id.as_deref())?;
            let deletions = match counts {
                true => Some(claims::deletions(file, &key.thread)?),
                false => None,
            };
            transaction.commit()?;
            Ok(Look { tuple, deletions })
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
        self.read(point(Operation::SaverRead, &thread, ""), move |file| {
            let transaction = Transaction::begin(&file.connection, Begin::Read)?;
            let tuples = rows::list(&file.connection, &thread, namespace.as_deref(), &filter)?;
            transaction.commit()?;
            Ok(tuples)
        })
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        let submitted = self.submit_put(put);
        Box::pin(async move { submitted.await.end().await })
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        let submitted = self.submit_writes(put);
        Box::pin(async move { submitted.await.end().await })
    }

    fn submit_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        let Put { key, parent, checkpoint, metadata, claim, fate, .. } = put;
        let parent = parent_id(parent);
        let point = point(Operation::SaverWrite, &key.thread, &checkpoint.id);
        let late_writes = self.late_writes;
        // Encoded when its turn has come: what waits shares its values with the run.
        let submitted = self.submit(Kind::Put, fate, point, move |file| {
            let blob = encode_checkpoint_with(&checkpoint, &mut file.encodings.borrow_mut())?;
            let row = CheckpointRow {
                key: &key,
                id: &checkpoint.id,
                parent: parent.as_deref(),
                checkpoint: &blob,
                metadata: &encode_metadata(&metadata),
            };
            claims::check(file, &row, &claim, late_writes)?;
            row.put(&file.connection)
        });
        landing(submitted)
    }

    fn submit_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        let PutWrites { key, checkpoint, task, writes, claim, fate, .. } = put;
        let point = point(Operation::SaverWrite, &key.thread, &checkpoint);
        let late_writes = self.late_writes;
        let submitted = self.submit(Kind::Write, fate, point, move |file| {
            let replace = writes.iter().all(|(name, _)| reserved::fixed_index(name).is_some());
            let rows: Vec<WriteRow> =
                writes.iter().enumerate().map(write_row).collect::<Result<_, _>>()?;
            claims::check_deletion(file, &key.thread, &claim, late_writes)?;
            rows::put_writes(&file.connection, &key, &checkpoint, &task, &rows, replace)
        });
        landing(submitted)
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
        self.read(point, move |file| {
            history::walk(&file.connection, &key, id.as_deref(), &channels)
        })
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.prune(&[thread.into()], Keep::Nothing)
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        let (from, to): (Arc<str>, Arc<str>) = (from.into(), to.into());
        let point = point(Operation::SaverWrite, &to, "");
        self.change(point, move |file| threads::copy(&file.connection, &from, &to))
    }

    fn prune(&self, names: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        let Some(first) = names.first() else { return Box::pin(ready(Ok(()))) };
        let point = point(Operation::SaverWrite, first, "");
        let names = names.to_vec();
        let late_writes = self.late_writes;
        self.change(point, move |file| {
            names.iter().try_for_each(|name| match keep {
                Keep::Latest => threads::prune(&file.connection, name),
                Keep::Nothing => {
                    if late_writes == LateWrites::Refused {
                        claims::remember_deletion(file, name)?;
                    }
                    threads::delete(&file.connection, name)
                }
            })
        })
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        let Some(first) = runs.first() else { return Box::pin(ready(Ok(()))) };
        let point = point(Operation::SaverWrite, first, "");
        let runs = runs.to_vec();
        self.change(point, move |file| threads::delete_runs(&file.connection, &runs))
    }
}

fn landing(submitted: BoxFuture<'static, End<()>>) -> BoxFuture<'static, Landing> {
    Box::pin(async move { Landing::new(submitted.await.told()) })
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
