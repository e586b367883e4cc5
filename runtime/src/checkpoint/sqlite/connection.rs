//! One connection, lent to one blocking call at a time, and what is done when the file is locked.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::Mutex;

use super::{SqliteOptions, Synchronous, claims, rows};
use crate::checkpoint::saver::{LateWrites, SaverError, SaverResult};
use crate::doors::{Doors, Pass, Point};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Why one attempt at a call failed.
pub(super) enum Failure {
    /// Another connection holds a lock; nothing happened, and it may work later.
    Busy(rusqlite::Error),
    Sql(rusqlite::Error),
    Saver(SaverError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Failure::Busy(error),
            _ => Failure::Sql(error),
        }
    }
}

impl From<SaverError> for Failure {
    fn from(error: SaverError) -> Failure {
        Failure::Saver(error)
    }
}

/// One attempt at a call.
type Work<T> = dyn Fn(&mut Option<Connection>) -> Result<T, Failure> + Send + Sync;

/// The connection of a saver. Clones share it.
#[derive(Clone)]
pub(super) struct Store {
    path: Arc<str>,
    pub(super) doors: Doors,
    busy_limit: Duration,
    pub(super) late_writes: LateWrites,
    /// `None` before opening and after closing. A fair lock: callers get it in order.
    slot: Arc<Mutex<Option<Connection>>>,
}

impl Store {
    pub(super) fn new(path: &str, doors: &Doors, options: SqliteOptions) -> Store {
        Store {
            path: path.into(),
            doors: doors.clone(),
            busy_limit: options.busy_limit,
            late_writes: options.late_writes,
            slot: Arc::default(),
        }
    }

    pub(super) async fn open(&self, synchronous: Synchronous) -> Result<(), SaverError> {
        let (path, opener) = (self.path.clone(), self.doors.opener.clone());
        let late_writes = self.late_writes;
        let work = move |slot: &mut Option<Connection>| {
            let connection = opener.open(&path)?;
            prepare(&connection, synchronous, late_writes)?;
            *slot = Some(connection);
            Ok(())
        };
        self.attempt_until_free(Pass::free(), Arc::new(work)).await
    }

    pub(super) async fn close(&self) -> Result<(), SaverError> {
        let work = |slot: &mut Option<Connection>| match slot.take() {
            None => Ok(()),
            Some(connection) => connection.close().map_err(|(_, error)| error.into()),
        };
        self.attempt_until_free(Pass::free(), Arc::new(work)).await
    }

    /// Runs `work` with the connection, where it may block, once the gate lets it. It runs again
    /// when the file was locked, and to its end when the future is dropped meanwhile.
    pub(super) fn call<T: Send + 'static>(
        &self,
        point: Point,
        work: impl Fn(&Connection) -> Result<T, Failure> + Send + Sync + 'static,
    ) -> SaverResult<T> {
        let store = self.clone();
        let path = self.path.clone();
        let work = move |slot: &mut Option<Connection>| match slot {
            Some(connection) => work(connection),
            None => Err(SaverError::Store(format!("{path}: the saver is closed")).into()),
        };
        Box::pin(async move {
            let pass = store.doors.gate.pass(|| point).await;
            store.attempt_until_free(pass, Arc::new(work)).await
        })
    }

    /// As [`Store::call`], in a transaction that has the write lock from its start, so that it is
    /// refused before it did anything and not in the middle.
    pub(super) fn write(
        &self,
        point: Point,
        work: impl Fn(&Connection) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> SaverResult<()> {
        self.call(point, move |connection| {
            let transaction = Transaction::begin(connection, Begin::Write)?;
            work(connection)?;
            Ok(transaction.commit()?)
        })
    }

    /// SQLite's own busy handler would sleep inside the call, where a simulated world has no time;
    /// here the connection is given back and the clock's door is waited at, with growing pauses.
    async fn attempt_until_free<T: Send + 'static>(
        &self,
        mut pass: Pass,
        work: Arc<Work<T>>,
    ) -> Result<T, SaverError> {
        let mut waited = Duration::ZERO;
        let mut pause = FIRST_PAUSE;
        loop {
            // The lock and the pass go with the call: when this future is dropped, the next
            // borrower still meets the connection after the transaction, and the point is released
            // when the operation is over.
            let mut slot = self.slot.clone().lock_owned().await;
            let work = work.clone();
            let call = self.doors.executor.blocking("saver", move || {
                let result = work(&mut slot);
                drop(slot);
                (result, pass)
            });
            let (result, returned) = call.await.map_err(|_| SaverError::Cancelled)?;
            pass = returned;
            let problem = match result {
                Ok(value) => return Ok(value),
                Err(Failure::Saver(error)) => return Err(error),
                Err(Failure::Sql(error)) => error.to_string(),
                Err(Failure::Busy(error)) if waited >= self.busy_limit => {
                    format!("still locked by another connection after {waited:?}: {error}")
                }
                Err(Failure::Busy(_)) => {
                    pause = pause.min(self.busy_limit - waited);
                    self.doors.clock.sleep(pause).await;
                    waited += pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            };
            return Err(SaverError::Store(format!("{}: {problem}", self.path)));
        }
    }
}

/// A transaction that is rolled back unless it is committed. As rusqlite's own, but its statements
/// are kept prepared: parsing them anew is a good part of a small commit's cost.
pub(super) struct Transaction<'a>(&'a Connection);

/// What a transaction is for.
#[derive(Clone, Copy)]
pub(super) enum Begin {
    /// Sees one moment, from its first read on.
    Read,
    /// Has the write lock at once.
    Write,
}

impl Transaction<'_> {
    pub(super) fn begin(
        connection: &Connection,
        begin: Begin,
    ) -> rusqlite::Result<Transaction<'_>> {
        let sql = match begin {
            Begin::Read => "BEGIN",
            Begin::Write => "BEGIN IMMEDIATE",
        };
        connection.prepare_cached(sql)?.execute([])?;
        Ok(Transaction(connection))
    }

    pub(super) fn commit(self) -> rusqlite::Result<()> {
        self.0.prepare_cached("COMMIT")?.execute([]).map(drop)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // After a commit there is nothing left to roll back.
        if !self.0.is_autocommit() {
            let _ = self.0.prepare_cached("ROLLBACK").and_then(|mut s| s.execute([]));
        }
    }
}

/// What a fresh connection needs before its first use.
fn prepare(
    connection: &Connection,
    synchronous: Synchronous,
    late_writes: LateWrites,
) -> rusqlite::Result<()> {
    // rusqlite sets 5 seconds when it opens a connection.
    connection.busy_timeout(Duration::ZERO)?;
    // A cached statement keeps its plan. Otherwise it is prepared anew whenever a parameter is given
    // another value than last time, and every thread has another name.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // WAL lets readers go on while another connection writes. A database that cannot have it (one
    // in memory) says so in the answer and works without.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch(match synchronous {
        Synchronous::Full => "PRAGMA synchronous = FULL",
        Synchronous::Normal => "PRAGMA synchronous = NORMAL",
    })?;
    // All in one transaction: one commit where they are made, and no lock where they are not.
    let deletions = match late_writes {
        LateWrites::Land => "",
        LateWrites::Refused => claims::TABLE,
    };
    connection.execute_batch(&format!("BEGIN; {} {deletions} COMMIT", rows::TABLES))
}
