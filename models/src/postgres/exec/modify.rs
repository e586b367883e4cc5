//! UPDATE and DELETE.

use std::collections::BTreeSet;

use super::eval::{Env, eval};
use super::query::{candidates, project};
use super::rows::Locked;
use super::scan::{Tuple, still_holds};
use crate::postgres::error::Result;
use crate::postgres::session::{Run, Session};
use crate::postgres::sql::{Assignment, Body, Delete, Expr, Query, Update, WaitPolicy};
use crate::postgres::store::Tid;
use crate::postgres::types::{Cell, Row};

impl Session {
    /// How many rows, and what RETURNING shows of them.
    pub(in crate::postgres) async fn update(
        &mut self,
        run: &mut Run,
        update: &Update,
    ) -> Result<(usize, Vec<Row>)> {
        let (mut count, mut returned) = (0, Vec::new());
        for mut tuple in self.targets(run, &update.source).await? {
            let Some(tid) = self.target_row(run, update.table, &update.source, &mut tuple).await?
            else {
                continue;
            };
            let old = tuple.rows[0].clone();
            let new =
                self.assigned(run, update.table, &update.assignments, &old, &tuple.rows).await?;
            self.replace(run, update.table, tid, new.clone()).await?;
            count += 1;
            tuple.rows[0] = new;
            if !update.returning.is_empty() {
                returned.push(self.shown(run, &update.returning, &tuple.rows).await?);
            }
        }
        Ok((count, returned))
    }

    pub(in crate::postgres) async fn delete(
        &mut self,
        run: &mut Run,
        delete: &Delete,
    ) -> Result<(usize, Vec<Row>)> {
        let (mut count, mut returned) = (0, Vec::new());
        for mut tuple in self.targets(run, &delete.source).await? {
            let Some(tid) = self.target_row(run, delete.table, &delete.source, &mut tuple).await?
            else {
                continue;
            };
            self.end_version(run, delete.table, tid, None);
            count += 1;
            if !delete.returning.is_empty() {
                returned.push(self.shown(run, &delete.returning, &tuple.rows).await?);
            }
        }
        Ok((count, returned))
    }

    /// The tuples to change, each stored row at most once.
    async fn targets(&mut self, run: &mut Run, source: &Query) -> Result<Vec<Tuple>> {
        let Body::Select(select) = &source.body else { unreachable!("targets are selected") };
        let mut found = self.settle(run, |ctx| candidates(ctx, source, select, None)).await?;
        let mut seen = BTreeSet::new();
        found.retain(|tuple| seen.insert(tuple.places[0]));
        Ok(found)
    }

    /// The row's place, locked and still fitting; `None` if there is nothing to change any more.
    async fn target_row(
        &mut self,
        run: &mut Run,
        table: u32,
        source: &Query,
        tuple: &mut Tuple,
    ) -> Result<Option<Tid>> {
        let Body::Select(select) = &source.body else { unreachable!("targets are selected") };
        let (_, tid) = tuple.places[0].expect("the target is a stored row");
        let Locked::Row { tid, row, moved } =
            self.lock_row(run, table, tid, WaitPolicy::Block).await?
        else {
            return Ok(None);
        };
        tuple.rows[0] = row;
        if moved {
            run.memo.next_row();
            let rows = &tuple.rows;
            if !self.settle(run, |ctx| still_holds(ctx, select, rows, None)).await? {
                return Ok(None);
            }
        }
        Ok(Some(tid))
    }

    /// The row with the assignments of SET.
    pub(super) async fn assigned(
        &mut self,
        run: &mut Run,
        table: u32,
        assignments: &[Assignment],
        old: &Row,
        rows: &[Row],
    ) -> Result<Row> {
        let mut new: Vec<Cell> = old.to_vec();
        for (column, value) in assignments {
            run.memo.next_row();
            new[*column] = match value {
                Some(expr) => {
                    self.settle(run, |ctx| eval(ctx, &Env::new(rows, None), expr)).await?
                }
                None => self.default(table, *column),
            };
        }
        let new: Row = new.into();
        self.engine.lock().store.table(table).check_not_null(&new)?;
        Ok(new)
    }

    /// Puts a new version in the place of one that is locked.
    pub(super) async fn replace(
        &mut self,
        run: &mut Run,
        table: u32,
        tid: Tid,
        new: Row,
    ) -> Result<()> {
        let xid = self.run_xid(run);
        let next = {
            let mut state = self.engine.lock();
            state.store.table_mut(table).add(new, (xid, run.command))
        };
        self.end_version(run, table, tid, Some(next));
        self.enter_indexes(run, table, next).await
    }

    fn end_version(&mut self, run: &mut Run, table: u32, tid: Tid, next: Option<Tid>) {
        let xid = self.run_xid(run);
        let mut state = self.engine.lock();
        let table = state.store.table_mut(table);
        table.garbage += 1;
        let version = table.versions.get_mut(&tid).expect("it is locked, so it is there");
        version.ended = Some((xid, run.command));
        version.next = next;
    }

    pub(super) async fn shown(
        &mut self,
        run: &mut Run,
        output: &[Expr],
        rows: &[Row],
    ) -> Result<Row> {
        run.memo.next_row();
        self.settle(run, |ctx| project(ctx, &Env::new(rows, None), output)).await
    }
}
