//! What must still be so when a write lands, and what is remembered of deleted threads.

use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, params};

use super::connection::Failure;
use super::rows::CheckpointRow;
use crate::checkpoint::late;
use crate::checkpoint::saver::{Claim, LateWrites};

/// Our own table, beside those of LangGraph, which does not look at it.
pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS durasim_deletions (
    thread_id TEXT PRIMARY KEY,
    checkpoint_id TEXT NOT NULL
) WITHOUT ROWID;";

const INSERT: &str = "INSERT OR REPLACE INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id, \
     parent_checkpoint_id, type, checkpoint, metadata)";
const DELETION: &str = "SELECT checkpoint_id FROM durasim_deletions WHERE thread_id = ?1";
const HEAD: &str = "SELECT max(checkpoint_id) FROM checkpoints \
     WHERE thread_id = ?1 AND checkpoint_ns = ?2";

/// The statement that stores a checkpoint if its claim holds, and else nothing. Parameters: thread,
/// namespace, id, parent, checkpoint, metadata, since.
pub(super) fn put(claim: &Claim, late_writes: LateWrites) -> String {
    let mut conditions = Vec::new();
    if late_writes == LateWrites::Refused {
        conditions.push(format!("coalesce(?7 > ({DELETION}), true)"));
    }
    if claim.parent_is_head {
        conditions.push(format!("coalesce(({HEAD}), '') IN (coalesce(?4, ''), ?3)"));
    }
    if conditions.is_empty() {
        // Every statement names every parameter.
        conditions.push("?7 IS ?7".to_owned());
    }
    let conditions = conditions.join(" AND ");
    format!("{INSERT} SELECT ?1, ?2, ?3, ?4, 'msgpack', ?5, ?6 WHERE {conditions}")
}

/// Says which part of its claim keeps a checkpoint out, if any still does.
pub(super) fn check(
    connection: &Connection,
    row: &CheckpointRow<'_>,
    claim: &Claim,
    late_writes: LateWrites,
) -> Result<(), Failure> {
    let thread = &*row.key.thread;
    check_deletion(connection, thread, claim, late_writes)?;
    let head: Option<String> = connection
        .prepare_cached(HEAD)?
        .query_row([thread, &*row.key.namespace], |row| row.get(0))?;
    Ok(late::check_head(thread, claim, row.id, row.parent, head.as_deref())?)
}

/// Refuses a writer that looked at the thread before it was deleted.
pub(super) fn check_deletion(
    connection: &Connection,
    thread: &str,
    claim: &Claim,
    late_writes: LateWrites,
) -> Result<(), Failure> {
    if late_writes == LateWrites::Land || claim.since.is_none() {
        return Ok(());
    }
    let mut select = connection.prepare_cached(DELETION)?;
    let deletion: Option<String> = select.query_row([thread], |row| row.get(0)).optional()?;
    Ok(late::check(thread, claim, deletion.as_deref())?)
}

/// To be called before the rows go.
pub(super) fn remember_deletion(
    connection: &Connection,
    thread: &str,
    now: SystemTime,
) -> Result<(), Failure> {
    let mut select = connection.prepare_cached(
        "SELECT max(id) FROM (
            SELECT max(checkpoint_id) AS id FROM checkpoints WHERE thread_id = ?1
            UNION ALL SELECT max(checkpoint_id) FROM writes WHERE thread_id = ?1)",
    )?;
    let newest: Option<String> = select.query_row([thread], |row| row.get(0))?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO durasim_deletions (thread_id, checkpoint_id) VALUES (?1, ?2)
         ON CONFLICT (thread_id) DO UPDATE
         SET checkpoint_id = max(checkpoint_id, excluded.checkpoint_id)",
    )?;
    insert.execute(params![thread, late::deletion(now, newest.as_deref())])?;
    Ok(())
}
