//! One execution of a statement, and evaluating within it.

use super::Session;
use crate::postgres::error::Result;
use crate::postgres::exec::{Context, Facts, Halt, Memo};
use crate::postgres::store::{Snapshot, Xid};
use crate::postgres::types::Cell;

/// What stays the same while one statement is executed, waits included.
pub struct Run {
    pub params: Vec<Cell>,
    pub snapshot: Snapshot,
    pub command: u32,
    pub facts: Facts,
    pub memo: Memo,
}

impl Session {
    /// A fresh look at everything that has been committed.
    pub fn start_run(&mut self, params: Vec<Cell>) -> Run {
        self.xact.command += 1;
        let command = self.xact.command;
        let state = self.engine.lock();
        let snapshot = Snapshot::new(&state.store.xacts, self.xact.own(), command);
        drop(state);
        Run { params, snapshot, command, facts: self.facts(), memo: Memo::default() }
    }

    /// The id for the run's changes, which its snapshot then knows as its own.
    pub fn run_xid(&mut self, run: &mut Run) -> Xid {
        let xid = self.xact.xid(&mut self.engine.lock(), self.pid);
        if !run.snapshot.is_own(xid) {
            run.snapshot.add_own(xid);
        }
        xid
    }

    /// Evaluates, doing on the way what has to be done, until there is a value.
    pub async fn settle<T: Send>(
        &mut self,
        run: &mut Run,
        mut evaluate: impl FnMut(&Context<'_>) -> std::result::Result<T, Halt> + Send,
    ) -> Result<T> {
        loop {
            run.memo.rewind();
            run.facts.clock = self.engine.clock.timestamp();
            let halt = {
                let state = self.engine.lock();
                let context = Context {
                    store: &state.store,
                    snapshot: &run.snapshot,
                    params: &run.params,
                    facts: &run.facts,
                    memo: &run.memo,
                };
                match evaluate(&context) {
                    Ok(value) => return Ok(value),
                    Err(halt) => halt,
                }
            };
            match halt {
                Halt::Error(error) => return Err(error),
                Halt::Call(function, args) => {
                    let result = self.perform(function, args).await?;
                    run.memo.done(result);
                }
                Halt::Lock(query) => {
                    let calls = run.memo.set_aside();
                    let rows = Box::pin(self.lock_rows(run, &query)).await?;
                    run.memo.take_back(calls);
                    run.memo.lock_done(query.id, rows);
                }
            }
        }
    }
}
