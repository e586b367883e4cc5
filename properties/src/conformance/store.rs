//! The store that a case runs on, and how its rows are read afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{
    Keep, ListFilter, Put, PutWrites, SaverError, SaverResult,
};
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::checkpoint::{CheckpointTuple, ThreadKey, reserved};
use durasim_runtime::doors::Clock;
use durasim_runtime::{Doors, Saver};
use futures::future::BoxFuture;

use super::freeze::Freeze;

/// A fresh store for one case.
#[derive(Clone)]
pub struct Store {
    pub saver: Arc<dyn Saver>,
    pub rows: Rows,
}

/// Where the rows of a store can be seen beside what its saver tells.
#[derive(Debug, Clone)]
pub enum Rows {
    /// Nowhere: the index of a pending write stays hidden, its place among the others does not.
    Saver,
    /// In the database file with this path.
    Sqlite(String),
    /// In the tables at the other end of the lane.
    #[cfg(not(madsim))]
    Postgres(super::postgres::Lane),
    /// In the tables of a server of the world.
    #[cfg(madsim)]
    Postgres(durasim_models::Postgres),
}

/// Makes a fresh store for the case with this name.
pub type StoreFactory =
    dyn Fn(&str, &Doors) -> BoxFuture<'static, Result<Store, SaverError>> + Send + Sync;

/// Keeps each case in memory.
pub fn memory_store() -> Box<StoreFactory> {
    Box::new(|_, doors| {
        let saver: Arc<dyn Saver> = Arc::new(MemorySaver::new(doors));
        Box::pin(async move { Ok(Store { saver, rows: Rows::Saver }) })
    })
}

/// Keeps each case in an own SQLite file of `folder`, which must be empty of them.
pub fn sqlite_store(folder: &str) -> Box<StoreFactory> {
    let folder = folder.to_owned();
    Box::new(move |case, doors| {
        let path = format!("{folder}/{case}.sqlite");
        let opening = SqliteSaver::open(&path, doors);
        Box::pin(async move {
            let saver: Arc<dyn Saver> = opening.await?;
            Ok(Store { saver, rows: Rows::Sqlite(path) })
        })
    })
}

/// The key of one row of pending writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteKey {
    pub namespace: String,
    pub checkpoint: String,
    pub task: String,
    pub index: i64,
    pub channel: String,
}

impl Store {
    /// The keys of all pending writes of a thread, each checkpoint's in the order in which a saver
    /// gives them back; `None` when they cannot be seen.
    pub async fn write_keys(
        &self,
        thread: &str,
        doors: &Doors,
    ) -> Result<Option<Vec<WriteKey>>, String> {
        let path = match &self.rows {
            Rows::Saver => return Ok(None),
            Rows::Sqlite(path) => path,
            #[cfg(not(madsim))]
            Rows::Postgres(lane) => return lane.write_keys(thread).await.map(Some),
            #[cfg(madsim)]
            Rows::Postgres(postgres) => return write_keys_of(postgres, thread).map(Some),
        };
        let (path, thread, opener) = (path.clone(), thread.to_owned(), doors.opener.clone());
        let read = move || -> rusqlite::Result<Vec<WriteKey>> {
            let connection = opener.open(&path)?;
            let mut select = connection.prepare(
                "SELECT checkpoint_ns, checkpoint_id, task_id, idx, channel FROM writes \
                 WHERE thread_id = ? ORDER BY checkpoint_ns, checkpoint_id, task_id, idx",
            )?;
            let rows = select.query_map([thread], |row| {
                Ok(WriteKey {
                    namespace: row.get(0)?,
                    checkpoint: row.get(1)?,
                    task: row.get(2)?,
                    index: row.get(3)?,
                    channel: row.get(4)?,
                })
            })?;
            rows.collect()
        };
        let rows = doors.executor.blocking("conformance/rows", read).await;
        let rows = rows.map_err(|error| error.to_string())?;
        rows.map(Some).map_err(|error| error.to_string())
    }
}

/// In the order of the primary key, which is that of the columns that are asked for elsewhere.
#[cfg(madsim)]
fn write_keys_of(
    postgres: &durasim_models::Postgres,
    thread: &str,
) -> Result<Vec<WriteKey>, String> {
    use durasim_models::postgres::Cell;
    let rows = postgres.rows("checkpoint_writes").into_iter();
    let of_thread = rows.filter(|row| row["thread_id"].as_str() == Some(thread));
    let key = |row: std::collections::BTreeMap<String, Cell>| {
        let text = |column: &str| row[column].as_str().map(str::to_owned);
        let index = match &row["idx"] {
            Cell::Int4(index) => Some((*index).into()),
            _ => None,
        };
        Some(WriteKey {
            namespace: text("checkpoint_ns")?,
            checkpoint: text("checkpoint_id")?,
            task: text("task_id")?,
            index: index?,
            channel: text("channel")?,
        })
    };
    of_thread.map(|row| key(row).ok_or("a row of another shape".to_owned())).collect()
}

/// A saver whose puts may be slow, and of which one can tell whether anything is under way.
#[derive(Clone)]
pub(super) struct WatchedSaver {
    inner: Arc<dyn Saver>,
    clock: Arc<dyn Clock>,
    put_delay: Duration,
    freeze: Arc<Freeze>,
    under_way: Arc<AtomicUsize>,
}

impl WatchedSaver {
    pub fn new(
        inner: Arc<dyn Saver>,
        clock: Arc<dyn Clock>,
        put_delay: Duration,
        freeze: Arc<Freeze>,
    ) -> WatchedSaver {
        WatchedSaver { inner, clock, put_delay, freeze, under_way: Arc::default() }
    }

    /// Waits until no call has been under way at several looks in a row. A dropped run does its
    /// exit duties behind its owner's back; this is how their end shows.
    pub async fn until_quiet(&self) {
        let mut quiet = 0;
        while quiet < 3 {
            self.clock.sleep(Duration::from_millis(10)).await;
            quiet = if self.under_way.load(Ordering::Relaxed) == 0 { quiet + 1 } else { 0 };
        }
    }

    fn read<T: Send + 'static>(&self, call: SaverResult<T>) -> SaverResult<T> {
        let (freeze, counted) = (self.freeze.clone(), Counted::new(&self.under_way));
        Box::pin(async move {
            let _counted = counted;
            freeze.hold().await;
            call.await
        })
    }

    fn write<T: Send + 'static>(
        &self,
        delay: Duration,
        task: Option<String>,
        call: SaverResult<T>,
    ) -> SaverResult<T> {
        let (clock, freeze) = (self.clock.clone(), self.freeze.clone());
        let counted = Counted::new(&self.under_way);
        Box::pin(async move {
            let _counted = counted;
            if !delay.is_zero() {
                clock.sleep(delay).await;
            }
            freeze.before_write().await;
            let result = call.await;
            freeze.after_write(task.as_deref()).await;
            result
        })
    }
}

struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Counted {
        counter.fetch_add(1, Ordering::Relaxed);
        Counted(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Saver for WatchedSaver {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        self.read(self.inner.get_tuple(key, id))
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        self.read(self.inner.list(thread, namespace, filter))
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        self.write(self.put_delay, None, self.inner.put(put))
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        // Rows of signals only do not finish a task.
        let is_signal = |(channel, _): &(Arc<str>, _)| reserved::fixed_index(channel).is_some();
        let finished = (!put.writes.iter().all(is_signal)).then(|| put.task.to_string());
        self.write(Duration::ZERO, finished, self.inner.put_writes(put))
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.write(Duration::ZERO, None, self.inner.delete_thread(thread))
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        self.write(Duration::ZERO, None, self.inner.copy_thread(from, to))
    }

    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        self.write(Duration::ZERO, None, self.inner.prune(threads, keep))
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        self.write(Duration::ZERO, None, self.inner.delete_for_runs(runs))
    }
}
