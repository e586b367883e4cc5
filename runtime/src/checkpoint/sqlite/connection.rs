//! A connection: how it is prepared, and transactions on it.

use std::cell::RefCell;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};

use super::claims::Deletions;
use super::{FileProblem, SqliteOptions, Synchronous, rows};
use crate::checkpoint::codec::Encodings;
use crate::checkpoint::saver::SaverError;
use crate::doors::{Opener, Turn};

/// Why one attempt at a call failed.
pub(super) enum Failure {
    /// Another connection holds a lock; nothing happened, and it may work later.
    Busy(rusqlite::Error),
    Sql(rusqlite::Error),
    File(FileProblem),
    Saver(SaverError),
}

/// As SQLite would say it.
pub(super) fn another_saver() -> rusqlite::Error {
    let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
    let why = "another saver of this process has been writing to it for a while";
    rusqlite::Error::SqliteFailure(busy, Some(why.to_owned()))
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

/// A file that is open.
pub(super) struct OpenFile {
    pub(super) connection: Connection,
    pub(super) encodings: RefCell<Encodings>,
    pub(super) deletions: Deletions,
    /// To write.
    pub(super) turn: Turn,
}

impl OpenFile {
    pub(super) fn open(
        opener: &dyn Opener,
        path: &str,
        options: SqliteOptions,
    ) -> Result<OpenFile, Failure> {
        let connection = opener.open(path)?;
        let turn = opener.turn(&connection);
        let deletions = Deletions::default();
        // Mostly nothing is written here. Where something is, SQLite says what is locked.
        let taken = turn.take();
        prepare(&connection, options.synchronous, &deletions)?;
        drop(taken);
        Ok(OpenFile { connection, encodings: RefCell::default(), deletions, turn })
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        let _taken = self.turn.take();
        self.connection.close().map_err(|(_, error)| error.into())
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

/// What a fresh connection needs before its first use. A file that is somebody else's is not changed.
fn prepare(
    connection: &Connection,
    synchronous: Synchronous,
    deletions: &Deletions,
) -> Result<(), Failure> {
    // rusqlite sets 5 seconds when it opens a connection.
    connection.busy_timeout(Duration::ZERO)?;
    // A cached statement keeps its plan. Otherwise it is prepared anew whenever a parameter is given
    // another value than last time, and every thread has another name.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    check_owner(connection)?;
    // WAL lets readers go on while another connection writes. A database that cannot have it (one
    // in memory) says so in the answer and works without.
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch(match synchronous {
        Synchronous::Full => "PRAGMA synchronous = FULL",
        Synchronous::Normal => "PRAGMA synchronous = NORMAL",
    })?;
    // All in one transaction: one commit where they are made, and no lock where they are not.
    let transaction = Transaction::begin(connection, Begin::Read)?;
    connection.execute_batch(rows::TABLES)?;
    deletions.learn(connection)?;
    Ok(transaction.commit()?)
}

/// Is this a fresh file, or one with LangGraph's tables?
fn check_owner(connection: &Connection) -> Result<(), Failure> {
    let found = ours(connection)?;
    if found.is_empty() {
        return match connection.query_row("PRAGMA application_id", [], |row| row.get(0))? {
            0 => Ok(()),
            id => Err(Failure::File(FileProblem::OtherProgram(id))),
        };
    }
    for (table, columns) in rows::COLUMNS_OF {
        if found.iter().any(|name| name == table)
            && let Err(error) = connection.prepare(&format!("SELECT {columns} FROM {table}"))
        {
            // One that is busy, say, speaks for itself.
            return Err(match Failure::from(error) {
                Failure::Sql(rusqlite::Error::SqliteFailure(_, Some(problem)))
                | Failure::Sql(rusqlite::Error::SqlInputError { msg: problem, .. }) => {
                    Failure::File(FileProblem::OtherTable { table, problem })
                }
                failure => failure,
            });
        }
    }
    Ok(())
}

/// Which of LangGraph's tables there are.
fn ours(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    // Rises with every table that is made; asking for it is cheap.
    let changes: i64 = connection.query_row("PRAGMA schema_version", [], |row| row.get(0))?;
    if changes == 0 {
        return Ok(vec![]);
    }
    let tables = "SELECT name FROM sqlite_schema WHERE name IN ('checkpoints', 'writes')";
    connection.prepare(tables)?.query_map([], |row| row.get(0))?.collect()
}
