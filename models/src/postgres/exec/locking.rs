//! SELECT ... FOR UPDATE.

use super::eval::Env;
use super::query::{candidates, limit_of, project};
use super::rows::Locked;
use super::scan::{Tuple, still_holds};
use crate::postgres::error::Result;
use crate::postgres::session::{Run, Session};
use crate::postgres::sql::{Body, Query, RowLock, Select};
use crate::postgres::types::Row;

impl Session {
    /// Runs a query with FOR UPDATE: rows are locked one by one in its order until there are enough,
    /// those that were changed meanwhile are judged again as they are now.
    pub(in crate::postgres) async fn lock_rows(
        &mut self,
        run: &mut Run,
        query: &Query,
    ) -> Result<Vec<Row>> {
        let Body::Select(select) = &query.body else { unreachable!("only SELECT can lock rows") };
        let lock = query.lock.expect("it is a locking query");
        run.memo.next_row();
        let found = self.settle(run, |ctx| candidates(ctx, query, select, None)).await?;
        let (offset, limit) = self.settle(run, |ctx| limit_of(ctx, query, None)).await?;
        let (mut rows, mut passed) = (Vec::new(), 0);
        for mut tuple in found {
            if rows.len() >= limit {
                break;
            }
            if !self.lock_tuple(run, select, lock, &mut tuple).await? {
                continue;
            }
            if passed < offset {
                passed += 1;
                continue;
            }
            run.memo.next_row();
            let output = &select.output;
            rows.push(
                self.settle(run, |ctx| project(ctx, &Env::new(&tuple.rows, None), output)).await?,
            );
        }
        Ok(rows)
    }

    /// False if the tuple is not, or no longer, one of the query's.
    async fn lock_tuple(
        &mut self,
        run: &mut Run,
        select: &Select,
        lock: RowLock,
        tuple: &mut Tuple,
    ) -> Result<bool> {
        let mut changed = false;
        for item in 0..tuple.rows.len() {
            let wanted = lock.item.is_none_or(|only| only == item);
            let Some((table, tid)) = tuple.places[item].filter(|_| wanted) else { continue };
            match self.lock_row(run, table, tid, lock.wait).await? {
                Locked::Row { row, moved, tid } => {
                    tuple.rows[item] = row;
                    tuple.places[item] = Some((table, tid));
                    changed |= moved;
                }
                Locked::Gone | Locked::Skipped => return Ok(false),
            }
        }
        if !changed {
            return Ok(true);
        }
        run.memo.next_row();
        self.settle(run, |ctx| still_holds(ctx, select, &tuple.rows, None)).await
    }
}
