//! What must still be so when a write lands, and what is remembered of deleted threads.

use std::cell::Cell;

use rusqlite::{Connection, OptionalExtension, params};

use super::connection::{Failure, OpenFile};
use super::rows::CheckpointRow;
use crate::checkpoint::late;
use crate::checkpoint::saver::{Claim, LateWrites};

/// Our own table, beside those of LangGraph, which does not look at it. Most files never need it, so
/// the first deletion makes it.
const TABLE: &str = "
CREATE TABLE IF NOT EXISTS durasim_deleted (
    thread_id TEXT PRIMARY KEY,
    times INTEGER NOT NULL
) WITHOUT ROWID";

/// What a connection knows of the table of deletions.
#[derive(Default)]
pub(super) struct Deletions {
    /// The file's schema version when there was no such table. Of its being there nothing is kept: it
    /// may have been made by a transaction that was rolled back.
    missing_at: Cell<Option<i64>>,
    /// Is there such a table, for the transaction that goes on? None before it was asked.
    exist: Cell<Option<bool>>,
}

impl Deletions {
    /// To be called in the transaction that looked at the file's tables, so that there is no need to
    /// ask the file: this connection knows its tables.
    pub(super) fn learn(&self, connection: &Connection) -> rusqlite::Result<()> {
        let exist = connection.table_exists(None, "durasim_deleted")?;
        self.missing_at.set((!exist).then_some(schema_version(connection)?));
        Ok(())
    }

    /// What was known of the last transaction need not be so in the next.
    pub(super) fn begin(&self) {
        self.exist.set(None);
    }

    /// Is there such a table? In a transaction that writes, this stays so up to its end, unless it
    /// makes one.
    fn exist(&self, connection: &Connection) -> rusqlite::Result<bool> {
        if let Some(exist) = self.exist.get() {
            return Ok(exist);
        }
        let exist = self.look(connection)?;
        self.exist.set(Some(exist));
        Ok(exist)
    }

    fn look(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let version = schema_version(connection)?;
        if self.missing_at.get() == Some(version) {
            return Ok(false);
        }
        let mut select = connection.prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'durasim_deleted')",
        )?;
        let exist: bool = select.query_row([], |row| row.get(0))?;
        self.missing_at.set((!exist).then_some(version));
        Ok(exist)
    }
}

/// Another one after every table that anybody makes.
fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))
}

/// Refuses a checkpoint whose claim does not hold. To be called in the transaction that stores it.
pub(super) fn check(
    file: &OpenFile,
    row: &CheckpointRow<'_>,
    claim: &Claim,
    late_writes: LateWrites,
) -> Result<(), Failure> {
    let thread = &*row.key.thread;
    check_deletion(file, thread, claim, late_writes)?;
    if !claim.parent_is_head {
        return Ok(());
    }
    let mut select = file.connection.prepare_cached(
        "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns = ?2",
    )?;
    let head: Option<String> = select.query_row([thread, &*row.key.namespace], |row| row.get(0))?;
    match late::check_head(thread, claim, row.id, row.parent, head.as_deref()) {
        Err(_) if is_stored(file, row)? => Ok(()),
        checked => Ok(checked?),
    }
}

/// Is there a checkpoint of this id with this parent?
fn is_stored(file: &OpenFile, row: &CheckpointRow<'_>) -> rusqlite::Result<bool> {
    let mut select = file.connection.prepare_cached(
        "SELECT EXISTS (
            SELECT 1 FROM checkpoints
            WHERE thread_id = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = ?3
                AND coalesce(parent_checkpoint_id, '') = coalesce(?4, '')
        )",
    )?;
    let at = params![&*row.key.thread, &*row.key.namespace, row.id, row.parent];
    select.query_row(at, |row| row.get(0))
}

/// Refuses a writer that looked at the thread before it was deleted. To be called in the transaction
/// that stores what it writes.
pub(super) fn check_deletion(
    file: &OpenFile,
    thread: &str,
    claim: &Claim,
    late_writes: LateWrites,
) -> Result<(), Failure> {
    if late_writes == LateWrites::Land || claim.deletions.is_none() {
        return Ok(());
    }
    Ok(late::check(thread, claim, deletions(file, thread)?)?)
}

/// How often a thread was deleted.
pub(super) fn deletions(file: &OpenFile, thread: &str) -> rusqlite::Result<u32> {
    if !file.deletions.exist(&file.connection)? {
        return Ok(0);
    }
    let mut select =
        file.connection.prepare_cached("SELECT times FROM durasim_deleted WHERE thread_id = ?1")?;
    Ok(select.query_row([thread], |row| row.get(0)).optional()?.unwrap_or_default())
}

pub(super) fn remember_deletion(file: &OpenFile, thread: &str) -> rusqlite::Result<()> {
    file.connection.prepare_cached(TABLE)?.execute([])?;
    file.deletions.exist.set(Some(true));
    let mut insert = file.connection.prepare_cached(
        "INSERT INTO durasim_deleted (thread_id, times) VALUES (?1, 1)
         ON CONFLICT (thread_id) DO UPDATE SET times = times + 1",
    )?;
    insert.execute([thread]).map(drop)
}
