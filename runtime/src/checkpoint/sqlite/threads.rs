//! What is done to whole threads.

use std::collections::BTreeSet;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::connection::Failure;
use super::rows::{self, Found};
use crate::checkpoint::prune::InPart;
use crate::checkpoint::saver::SaverError;

pub(super) fn delete(connection: &Connection, thread: &str) -> Result<(), Failure> {
    for table in ["checkpoints", "writes"] {
        let delete = format!("DELETE FROM {table} WHERE thread_id = ?");
        connection.prepare_cached(&delete)?.execute([thread])?;
    }
    Ok(())
}

pub(super) fn copy(connection: &Connection, from: &str, to: &str) -> Result<(), Failure> {
    let is_occupied = "SELECT EXISTS (SELECT 1 FROM checkpoints WHERE thread_id = ?1)
        OR EXISTS (SELECT 1 FROM writes WHERE thread_id = ?1)";
    if connection.query_row(is_occupied, [to], |row| row.get(0))? {
        return Err(SaverError::Occupied { thread: to.to_owned() }.into());
    }
    for (table, columns) in [
        (
            "checkpoints",
            "checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata",
        ),
        ("writes", "checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value"),
    ] {
        let copy = format!(
            "INSERT INTO {table} (thread_id, {columns})
             SELECT ?2, {columns} FROM {table} WHERE thread_id = ?1"
        );
        connection.execute(&copy, [from, to])?;
    }
    Ok(())
}

/// Of each namespace keeps the newest checkpoint and what it cannot do without.
pub(super) fn prune(connection: &Connection, thread: &str) -> Result<(), Failure> {
    let mut select = connection.prepare_cached(
        "SELECT checkpoint_ns, max(checkpoint_id) FROM checkpoints WHERE thread_id = ? GROUP BY 1",
    )?;
    let heads = select.query_map([thread], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let heads: Vec<(String, Arc<str>)> = heads.collect::<Result<_, _>>()?;
    for (namespace, head) in heads {
        let needed = needed(connection, thread, &namespace, head.clone())?;
        let needed = serde_json::json!(needed).to_string();
        for table in ["checkpoints", "writes"] {
            // Writes may stand beside a checkpoint that is yet to come.
            let delete = format!(
                "DELETE FROM {table} WHERE thread_id = ?1 AND checkpoint_ns = ?2
                 AND checkpoint_id < ?3 AND checkpoint_id NOT IN (SELECT value FROM json_each(?4))"
            );
            let mut delete = connection.prepare_cached(&delete)?;
            delete.execute(params![thread, namespace, head, needed])?;
        }
    }
    Ok(())
}

/// A checkpoint and the ancestors that its delta channels are rebuilt from.
fn needed(
    connection: &Connection,
    thread: &str,
    namespace: &str,
    head: Arc<str>,
) -> Result<BTreeSet<Arc<str>>, Failure> {
    let mut select = connection.prepare_cached(&format!(
        "{} AND checkpoint_ns = ? AND checkpoint_id = ?",
        rows::COLUMNS
    ))?;
    let mut needed = BTreeSet::new();
    let mut in_part: Option<InPart> = None;
    let mut next = Some(head);
    while let Some(id) = next {
        let mut rows = select.query(params![thread, namespace, id])?;
        let Some(row) = rows.next()? else { break };
        // One that was seen before is its own ancestor.
        if !needed.insert(id) {
            break;
        }
        let (checkpoint, metadata, parent) = Found::read_checkpoint(row, thread)?;
        let in_part = in_part.get_or_insert_with(|| InPart::of(&checkpoint, &metadata));
        in_part.visit(&checkpoint);
        next = parent.filter(|_| !in_part.is_empty());
    }
    Ok(needed)
}

/// Removes the checkpoints that these runs made, and what stands beside them.
pub(super) fn delete_runs(connection: &Connection, runs: &[Arc<str>]) -> Result<(), Failure> {
    let runs = serde_json::json!(runs).to_string();
    // Metadata is JSON as text in a BLOB, which SQLite would take for JSON of its own making. Python's
    // has NaN in it where JSON5 has, which 2 stands for.
    const OF_THESE: &str = "FROM checkpoints WHERE json_valid(CAST(metadata AS TEXT), 2)
        AND json_extract(CAST(metadata AS TEXT), '$.run_id') IN (SELECT value FROM json_each(?1))";
    let writes = format!(
        "DELETE FROM writes WHERE (thread_id, checkpoint_ns, checkpoint_id)
         IN (SELECT thread_id, checkpoint_ns, checkpoint_id {OF_THESE})"
    );
    connection.execute(&writes, [&runs])?;
    connection.execute(&format!("DELETE {OF_THESE}"), [&runs])?;
    Ok(())
}
