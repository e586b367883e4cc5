//! The walk through a checkpoint's ancestors as one statement.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};

use super::connection::Failure;
use super::rows::{bytes, decoded, type_name};
use crate::checkpoint::codec::decode;
use crate::checkpoint::history::{DeltaHistories, Walk};
use crate::checkpoint::saver::SaverError;
use crate::checkpoint::{Checkpoint, PendingWrite, ThreadKey};

/// Ancestors, nearest first, each with its rows of `writes`: once for every row, and once if it has
/// none. `UNION` and not `UNION ALL`, so that a parent that is its own descendant cannot hold the
/// walk for ever; `CROSS JOIN`, so that the chain gives the order. SQLite works it out row by row,
/// and so no further than it is read.
const ANCESTORS: &str = "
WITH RECURSIVE
target (id, parent) AS (
    SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints
    WHERE thread_id = ?1 AND checkpoint_ns = ?2 AND checkpoint_id = coalesce(?3, (
        SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ?1 AND checkpoint_ns = ?2))
),
chain (id, parent) AS (
    SELECT id, parent FROM target
    UNION
    SELECT above.checkpoint_id, above.parent_checkpoint_id
    FROM chain CROSS JOIN checkpoints AS above
    WHERE above.thread_id = ?1 AND above.checkpoint_ns = ?2 AND above.checkpoint_id = chain.parent
)
SELECT chain.id, held.type, held.checkpoint, w.task_id, w.idx, w.channel, w.type, w.value
FROM chain CROSS JOIN checkpoints AS held
LEFT JOIN writes AS w
    ON w.thread_id = ?1 AND w.checkpoint_ns = ?2 AND w.checkpoint_id = chain.id
WHERE held.thread_id = ?1 AND held.checkpoint_ns = ?2 AND held.checkpoint_id = chain.id
    AND chain.id <> (SELECT id FROM target)";

/// Is the checkpoint stored at all?
const TARGET: &str = "
SELECT 1 FROM checkpoints
WHERE thread_id = ?1 AND checkpoint_ns = ?2 AND (?3 IS NULL OR checkpoint_id = ?3)
LIMIT 1";

pub(super) fn walk(
    connection: &Connection,
    key: &ThreadKey,
    id: Option<&str>,
    channels: &[Arc<str>],
) -> Result<DeltaHistories, Failure> {
    let mut walk = Walk::new(channels);
    let mut select = connection.prepare_cached(ANCESTORS)?;
    let mut rows = select.query(params![key.thread, key.namespace, id])?;
    let mut ancestor: Option<Ancestor> = None;
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_str().unwrap_or_default();
        if ancestor.as_ref().is_none_or(|ancestor| &*ancestor.checkpoint.id != id) {
            if let Some(before) = ancestor.take() {
                before.leave(&mut walk);
            }
            if walk.is_over() {
                break;
            }
            let checkpoint = decoded(row, 1, 2, id);
            let checkpoint =
                checkpoint.map_err(|problem| corrupt(key, id, "checkpoint", problem))?;
            ancestor = Some(Ancestor { checkpoint, writes: vec![] });
        }
        if let Some(ancestor) = &mut ancestor {
            ancestor.take_write(row, key, &walk)?;
        }
    }
    match ancestor {
        Some(last) => last.leave(&mut walk),
        // No ancestor: a root, or a checkpoint that is not there.
        None if !walk.is_over() && !is_stored(connection, key, id)? => {
            return Ok(DeltaHistories::new());
        }
        None => {}
    }
    Ok(walk.end())
}

fn is_stored(connection: &Connection, key: &ThreadKey, id: Option<&str>) -> Result<bool, Failure> {
    let mut select = connection.prepare_cached(TARGET)?;
    Ok(select.exists(params![key.thread, key.namespace, id])?)
}

/// A checkpoint on the way, with what was read of its writes by task and index.
struct Ancestor {
    checkpoint: Checkpoint,
    writes: Vec<((Arc<str>, i64), PendingWrite)>,
}

impl Ancestor {
    /// The write in this row, if there is one and the walk wants it.
    fn take_write(&mut self, row: &Row<'_>, key: &ThreadKey, walk: &Walk) -> Result<(), Failure> {
        let Some(channel) = row.get_ref(5)?.as_str_or_null().unwrap_or_default() else {
            return Ok(());
        };
        if !walk.wants(channel) {
            return Ok(());
        }
        let (task, channel): (Arc<str>, Arc<str>) = (row.get(3)?, channel.into());
        let read = type_name(row, 6).and_then(|type_name| decode(type_name, bytes(row, 7)?));
        let value = read.map_err(|problem| {
            let part = format!("channel {channel:?} of task {task}");
            corrupt(key, &self.checkpoint.id, part, problem)
        })?;
        let at = (task.clone(), row.get(4)?);
        self.writes.push((at, PendingWrite { task, channel, value: value.into() }));
        Ok(())
    }

    fn leave(mut self, walk: &mut Walk) {
        self.writes.sort_by(|(a, _), (b, _)| a.cmp(b));
        walk.visit(
            &self.checkpoint.channel_values,
            self.writes.into_iter().map(|(_, write)| write),
        );
    }
}

fn corrupt(
    key: &ThreadKey,
    checkpoint: &str,
    part: impl Into<String>,
    problem: impl ToString,
) -> Failure {
    Failure::Saver(SaverError::Corrupt {
        thread: key.thread.to_string(),
        checkpoint: checkpoint.to_owned(),
        part: part.into(),
        problem: problem.to_string(),
    })
}
