//! INSERT, and what keeps keys unique.

use super::eval::{Env, eval, holds};
use super::query;
use super::rows::Locked;
use crate::postgres::error::{PgError, Result};
use crate::postgres::session::{Run, Session};
use crate::postgres::sql::{Conflict, ConflictUpdate, Insert, InsertSource, WaitPolicy};
use crate::postgres::store::{Default, Store, Tid, Xid};
use crate::postgres::types::{Cell, Row};

/// What stands under a key that is about to be taken.
enum Rival {
    None,
    /// A row that is there to stay, as far as we can see.
    Row(Tid),
    /// A row whose fate another transaction decides.
    Undecided(Xid),
}

impl Session {
    pub(in crate::postgres) async fn insert(
        &mut self,
        run: &mut Run,
        insert: &Insert,
    ) -> Result<(usize, Vec<Row>)> {
        let (mut count, mut returned) = (0, Vec::new());
        for given in self.given_rows(run, insert).await? {
            let row = self.filled(insert, given)?;
            let Some(row) =
                self.insert_row(run, insert.table, row, insert.conflict.as_ref()).await?
            else {
                continue;
            };
            count += 1;
            if !insert.returning.is_empty() {
                returned.push(self.shown(run, &insert.returning, &[row]).await?);
            }
        }
        Ok((count, returned))
    }

    /// The values that the statement gives, in its own columns; `None` is DEFAULT.
    async fn given_rows(
        &mut self,
        run: &mut Run,
        insert: &Insert,
    ) -> Result<Vec<Vec<Option<Cell>>>> {
        let values = match &insert.source {
            InsertSource::Defaults => return Ok(vec![Vec::new()]),
            InsertSource::Values(values) => values,
            InsertSource::Query(source) => {
                let rows = match source.lock {
                    Some(_) => self.lock_rows(run, source).await?,
                    None => self.settle(run, |ctx| query::rows(ctx, source, None)).await?.to_vec(),
                };
                return Ok(rows
                    .iter()
                    .map(|row| row.iter().cloned().map(Some).collect())
                    .collect());
            }
        };
        let mut rows = Vec::new();
        for row in values {
            let mut given = Vec::new();
            for value in row {
                run.memo.next_row();
                given.push(match value {
                    Some(expr) => Some(self.settle(run, |ctx| eval(ctx, &Env::EMPTY, expr)).await?),
                    None => None,
                });
            }
            rows.push(given);
        }
        Ok(rows)
    }

    /// The whole row, with defaults where nothing is given.
    fn filled(&mut self, insert: &Insert, given: Vec<Option<Cell>>) -> Result<Row> {
        let width = self.engine.lock().store.table(insert.table).columns.len();
        let mut cells: Vec<Option<Cell>> = vec![None; width];
        for (column, cell) in insert.columns.iter().zip(given) {
            cells[*column] = cell;
        }
        let whole = cells.into_iter().enumerate();
        let whole =
            whole.map(|(column, cell)| cell.unwrap_or_else(|| self.default(insert.table, column)));
        let row: Row = whole.collect();
        self.engine.lock().store.table(insert.table).check_not_null(&row)?;
        Ok(row)
    }

    pub(super) fn default(&mut self, table: u32, column: usize) -> Cell {
        let (now, clock) = (self.xact.now, self.engine.clock.timestamp());
        let mut state = self.engine.lock();
        let table = state.store.table_mut(table);
        match &table.columns[column].default {
            Default::Constant(cell) => cell.clone(),
            Default::Now => Cell::Timestamptz(now),
            Default::ClockTimestamp => Cell::Timestamptz(clock),
            Default::Sequence => {
                let ty = table.columns[column].ty;
                let last = table.sequences.entry(column).or_default();
                *last += 1;
                match ty {
                    crate::postgres::types::Type::INT4 => {
                        Cell::Int4(i32::try_from(*last).unwrap_or(i32::MAX))
                    }
                    _ => Cell::Int8(*last),
                }
            }
        }
    }

    /// The row as it is stored, or `None` if ON CONFLICT left everything as it was.
    async fn insert_row(
        &mut self,
        run: &mut Run,
        table: u32,
        row: Row,
        conflict: Option<&Conflict>,
    ) -> Result<Option<Row>> {
        if let Some(conflict) = conflict {
            while let Some(rival) = self.rival_in_the_way(run, table, &row, conflict).await? {
                match self.resolve(run, table, &row, rival, conflict).await? {
                    Resolved::Done(stored) => return Ok(stored),
                    Resolved::LookAgain => {}
                }
            }
        }
        let xid = self.run_xid(run);
        let tid = {
            let mut state = self.engine.lock();
            state.store.table_mut(table).add(row.clone(), (xid, run.command))
        };
        self.enter_indexes(run, table, tid).await?;
        Ok(Some(row))
    }

    /// The row under a key of an index that ON CONFLICT looks at.
    async fn rival_in_the_way(
        &mut self,
        run: &mut Run,
        table: u32,
        row: &Row,
        conflict: &Conflict,
    ) -> Result<Option<Tid>> {
        'again: loop {
            let indexes = self.engine.lock().store.table(table).indexes.len();
            for index in (0..indexes).filter(|at| conflict.index.is_none_or(|only| only == *at)) {
                let rival = self.rival(run, table, index, row, None);
                match rival {
                    Rival::None => {}
                    Rival::Row(tid) => return Ok(Some(tid)),
                    Rival::Undecided(xid) => {
                        self.wait_for_end(xid).await?;
                        continue 'again;
                    }
                }
            }
            return Ok(None);
        }
    }

    async fn resolve(
        &mut self,
        run: &mut Run,
        table: u32,
        row: &Row,
        rival: Tid,
        conflict: &Conflict,
    ) -> Result<Resolved> {
        let Some(ConflictUpdate { assignments, condition }) = &conflict.update else {
            return Ok(Resolved::Done(None));
        };
        let by_this_command = {
            let state = self.engine.lock();
            let (xid, command) = state.store.table(table).versions[&rival].made;
            run.snapshot.is_own(xid) && command == run.command
        };
        if by_this_command {
            let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
            return Err(PgError::new("21000", message));
        }
        let locked = self.lock_row(run, table, rival, WaitPolicy::Block).await?;
        let Locked::Row { tid, row: stored, moved: false } = locked else {
            return Ok(Resolved::LookAgain);
        };
        let rows = [stored.clone(), row.clone()];
        run.memo.next_row();
        if !self.settle(run, |ctx| holds(ctx, &Env::new(&rows, None), condition)).await? {
            return Ok(Resolved::Done(None));
        }
        let new = self.assigned(run, table, assignments, &stored, &rows).await?;
        self.replace(run, table, tid, new.clone()).await?;
        Ok(Resolved::Done(Some(new)))
    }

    /// Puts a new version into all indexes, waiting for whoever may have its key.
    ///
    /// # Errors
    /// 23505.
    pub(super) async fn enter_indexes(
        &mut self,
        run: &mut Run,
        table: u32,
        tid: Tid,
    ) -> Result<()> {
        let (indexes, row) = {
            let state = self.engine.lock();
            let table = state.store.table(table);
            (table.indexes.len(), table.versions[&tid].row.clone())
        };
        for index in 0..indexes {
            loop {
                let rival = self.rival(run, table, index, &row, Some(tid));
                match rival {
                    Rival::None => break,
                    Rival::Undecided(xid) => self.wait_for_end(xid).await?,
                    Rival::Row(_) => {
                        let state = self.engine.lock();
                        let table = state.store.table(table);
                        let key = table.key(index, &row);
                        return Err(table.indexes[index].violation(table, &key));
                    }
                }
            }
            self.engine.lock().store.table_mut(table).enter(index, tid);
        }
        Ok(())
    }

    fn rival(&self, run: &Run, table: u32, index: usize, row: &Row, but: Option<Tid>) -> Rival {
        let state = self.engine.lock();
        rival(&state.store, run, table, index, row, but)
    }
}

enum Resolved {
    Done(Option<Row>),
    LookAgain,
}

/// Looks past all snapshots: whoever committed last counts.
fn rival(store: &Store, run: &Run, table: u32, index: usize, row: &Row, but: Option<Tid>) -> Rival {
    let (table, xacts) = (store.table(table), &store.xacts);
    let key = table.key(index, row);
    if !table.indexes[index].unique || key.iter().any(Cell::is_null) {
        return Rival::None;
    }
    for tid in table.indexes[index].at(&key).iter().filter(|tid| Some(**tid) != but) {
        let version = &table.versions[tid];
        let (made, _) = version.made;
        if xacts.is_aborted(made) {
            continue;
        }
        if xacts.is_running(made) && !run.snapshot.is_own(made) {
            return Rival::Undecided(made);
        }
        match version.ended.filter(|(xid, _)| !xacts.is_aborted(*xid)) {
            None => return Rival::Row(*tid),
            Some((xid, _)) if xacts.is_running(xid) && !run.snapshot.is_own(xid) => {
                return Rival::Undecided(xid);
            }
            Some(_) => {}
        }
    }
    Rival::None
}
