//! The floor under a saver in a SQLite file: a bare loop that commits the same rows.

use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::now;

/// The rows of a run, step by step: those of `writes`, and the checkpoint that they led to.
pub(super) struct Rows {
    tables: Vec<String>,
    steps: Vec<Step>,
}

struct Step {
    writes: Vec<Vec<Value>>,
    checkpoint: Vec<Value>,
}

const CHECKPOINTS: &str = "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, \
     type, checkpoint, metadata FROM checkpoints ORDER BY checkpoint_id";
const WRITES: &str = "SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, \
     value FROM writes WHERE checkpoint_id = ? ORDER BY rowid";
const PARENT: usize = 3;

impl Rows {
    /// What a run has left in this file.
    pub fn read(path: &str) -> rusqlite::Result<Rows> {
        let connection = Connection::open(path)?;
        let tables = connection
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut writes = connection.prepare(WRITES)?;
        let mut checkpoints = connection.prepare(CHECKPOINTS)?;
        let mut rows = checkpoints.query([])?;
        let mut steps = Vec::new();
        while let Some(row) = rows.next()? {
            let checkpoint = columns::<7>(row)?;
            let parent = [&checkpoint[PARENT]];
            let beside = writes.query_map(parent, columns::<8>)?.collect::<Result<_, _>>()?;
            steps.push(Step { writes: beside, checkpoint });
        }
        Ok(Rows { tables, steps })
    }

    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Commits them to a fresh file, once a step, with the saver's pragmas.
    pub fn commit(&self, path: &str) -> rusqlite::Result<Duration> {
        let connection = Connection::open(path)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.execute_batch("PRAGMA synchronous = FULL")?;
        self.tables.iter().try_for_each(|table| connection.execute_batch(table))?;
        let started = now();
        for Step { writes, checkpoint } in &self.steps {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let sql = "INSERT OR IGNORE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
            for write in writes {
                connection.prepare_cached(sql)?.execute(params_from_iter(write))?;
            }
            let sql = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)";
            connection.prepare_cached(sql)?.execute(params_from_iter(checkpoint))?;
            connection.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(started.elapsed())
    }
}

fn columns<const N: usize>(row: &rusqlite::Row<'_>) -> rusqlite::Result<Vec<Value>> {
    (0..N).map(|column| row.get(column)).collect()
}
