//! Executing one statement, whichever protocol it came by.

use std::sync::Arc;

use sqlparser::ast::Statement;

use super::xact::Block;
use super::{Run, Session};
use crate::postgres::error::{PgError, Result};
use crate::postgres::exec;
use crate::postgres::locks::Mode;
use crate::postgres::sql::bind::{bind, session_action};
use crate::postgres::sql::{Action, Before, Field, Plan};
use crate::postgres::types::{Cell, Row, Type};

/// What a statement gives back.
pub struct Outcome {
    pub tag: String,
    /// `None` for a statement without a result.
    pub fields: Option<Vec<Field>>,
    pub rows: Vec<Row>,
}

impl Session {
    /// In a failed transaction only its end, or a way back, is accepted.
    pub(super) fn refuse_if_failed(&self, statement: &Statement) -> Result<()> {
        let leaves = matches!(statement, Statement::Commit { .. } | Statement::Rollback { .. });
        match self.xact.failed && !leaves {
            true => {
                let message = "current transaction is aborted, commands ignored until end of \
                               transaction block";
                Err(PgError::new("25P02", message))
            }
            false => Ok(()),
        }
    }

    pub(super) fn ensure_xact(&mut self) {
        if self.xact.block == Block::Idle {
            let now = self.engine.clock.timestamp();
            self.xact.begin(Block::Implicit, now);
        }
    }

    /// The plan of a statement, with all its table locks held. Whoever waits for one may find the
    /// table changed, so the plan is made anew until it fits.
    pub(super) async fn planned(
        &mut self,
        statement: &Statement,
        declared: Option<&[Type]>,
        known: Option<Arc<Plan>>,
    ) -> Result<Arc<Plan>> {
        let mut known = known;
        loop {
            let plan = {
                let state = self.engine.lock();
                match known.take().filter(|plan| plan.shape == state.store.shape) {
                    Some(plan) => plan,
                    None => Arc::new(bind(&state.store, &self.xact.own(), statement, declared)?),
                }
            };
            for (table, mode) in &plan.tables {
                self.lock_table(*table, *mode).await?;
            }
            if self.engine.lock().store.shape == plan.shape {
                return Ok(plan);
            }
        }
    }

    /// Executes a statement in the transaction at hand.
    ///
    /// # Errors
    /// Whatever goes wrong; the caller then fails the transaction.
    pub(super) async fn execute(
        &mut self,
        statement: &Statement,
        declared: Option<&[Type]>,
        known: Option<Arc<Plan>>,
        params: Vec<Cell>,
    ) -> Result<Outcome> {
        self.announced = None;
        self.signal.forget_cancel();
        self.start_timer();
        self.engine.lock().running += 1;
        let life = self.life;
        let result = self.execute_inside(statement, declared, known, params).await;
        let mut state = self.engine.lock();
        if state.life == life {
            state.running -= 1;
            if state.running == 0 {
                state.store.vacuum();
            }
        }
        drop(state);
        self.deadline = None;
        result
    }

    async fn execute_inside(
        &mut self,
        statement: &Statement,
        declared: Option<&[Type]>,
        known: Option<Arc<Plan>>,
        params: Vec<Cell>,
    ) -> Result<Outcome> {
        let label = "postgres.statement";
        let latency = self.engine.latency(label, &self.actor, self.engine.settings.statement_us);
        self.sleep(latency).await?;
        self.refuse_if_failed(statement)?;
        if let Some((action, fields)) = session_action(statement)? {
            self.announced = fields;
            return self.control(action).await;
        }
        let in_block = self.xact.block == Block::Explicit || self.several;
        if in_block && is_concurrent(statement) {
            let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
            return Err(PgError::new("25001", message));
        }
        self.ensure_xact();
        let plan = self.planned(statement, declared, known).await?;
        if let Action::Query(_) = plan.action {
            self.announced = plan.fields.clone();
        }
        let mut run = self.start_run(params);
        self.perform_plan(&mut run, &plan).await
    }

    async fn perform_plan(&mut self, run: &mut Run, plan: &Plan) -> Result<Outcome> {
        for before in &plan.with {
            run.memo.next_row();
            match before {
                Before::Query(query) => {
                    let query = std::slice::from_ref(query);
                    self.settle(run, |ctx| exec::with(ctx, query)).await?;
                }
                Before::Change(id, action) => {
                    let (_, rows) = self.change(run, action).await?;
                    run.memo.note_with(*id, Arc::new(rows));
                }
            }
        }
        run.memo.next_row();
        let fields = plan.fields.clone();
        let (tag, rows) = match &plan.action {
            Action::Query(query) => {
                let rows = match query.lock {
                    Some(_) => self.lock_rows(run, query).await?,
                    None => {
                        let rows = self.settle(run, |ctx| exec::rows(ctx, query, None)).await?;
                        Arc::unwrap_or_clone(rows)
                    }
                };
                (format!("SELECT {}", rows.len()), rows)
            }
            Action::Insert(_) | Action::Update(_) | Action::Delete(_) => {
                self.change(run, &plan.action).await?
            }
            Action::Define(definition) => {
                (self.define(run, definition).await?.to_owned(), Vec::new())
            }
            Action::Session(action) => return self.control(action.clone()).await,
        };
        Ok(Outcome { tag, fields, rows })
    }

    /// INSERT, UPDATE or DELETE: its tag, and what RETURNING shows.
    async fn change(&mut self, run: &mut Run, action: &Action) -> Result<(String, Vec<Row>)> {
        Ok(match action {
            Action::Insert(insert) => {
                let (count, rows) = self.insert(run, insert).await?;
                (format!("INSERT 0 {count}"), rows)
            }
            Action::Update(update) => {
                let (count, rows) = self.update(run, update).await?;
                (format!("UPDATE {count}"), rows)
            }
            Action::Delete(delete) => {
                let (count, rows) = self.delete(run, delete).await?;
                (format!("DELETE {count}"), rows)
            }
            _ => return Err(PgError::unsupported("WITH of a statement of this kind")),
        })
    }

    async fn lock_table(&mut self, table: u32, mode: Mode) -> Result<()> {
        let tag = crate::postgres::locks::Tag::Table(table);
        let owner = self.xact.owner();
        // Once is enough for each level.
        if self.engine.lock().locks.holds(self.pid, tag, mode) {
            return Ok(());
        }
        self.acquire(tag, mode, owner).await
    }
}

fn is_concurrent(statement: &Statement) -> bool {
    matches!(statement, Statement::CreateIndex(create) if create.concurrently)
}
