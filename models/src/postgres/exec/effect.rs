//! Functions with an effect, done once for each call.

use std::time::Duration;

use crate::postgres::engine::Wish;
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::{Mode, Owner, Tag};
use crate::postgres::session::Session;
use crate::postgres::sql::{Advisory, Deed, Function};
use crate::postgres::types::{Cell, Float};

impl Session {
    pub(in crate::postgres) async fn perform(
        &mut self,
        function: Function,
        args: Vec<Cell>,
    ) -> Result<Cell> {
        match function {
            Function::Advisory(of) => self.advisory(of, &args).await,
            Function::AdvisoryUnlockAll => {
                self.unlock_all();
                Ok(Cell::Void)
            }
            Function::NextVal => self.next_value(args[0].as_str().unwrap_or_default()),
            Function::Sleep => {
                let seconds = match &args[0] {
                    Cell::Float8(Float(seconds)) if *seconds > 0.0 => *seconds,
                    _ => 0.0,
                };
                let micros = (seconds * 1e6) as u64;
                self.sleep(Duration::from_micros(micros)).await?;
                Ok(Cell::Void)
            }
            Function::CancelBackend => Ok(self.signal_backend(&args[0], Wish::Cancel)),
            Function::TerminateBackend => Ok(self.signal_backend(&args[0], Wish::Terminate)),
            Function::SetConfig => {
                let text = |at: usize| args[at].as_str().unwrap_or_default();
                let name = text(0).to_lowercase();
                self.set(&name, Some(text(1)), args[2].is_true())?;
                self.setting(&name).map(Cell::text)
            }
            other => Err(PgError::unsupported(format_args!("the function {other:?}"))),
        }
    }

    async fn advisory(&mut self, of: Advisory, args: &[Cell]) -> Result<Cell> {
        let key = |at: usize| args[at].as_int().unwrap_or_default();
        let tag = match args.len() {
            1 => Tag::Advisory(false, key(0)),
            _ => Tag::Advisory(true, key(0) << 32 | (key(1) & 0xffff_ffff)),
        };
        let mode = if of.shared { Mode::Share } else { Mode::Exclusive };
        let owner = match of.deed {
            Deed::LockXact | Deed::TryXact => self.xact.owner(),
            Deed::Lock | Deed::Try | Deed::Unlock => Owner::Session,
        };
        match of.deed {
            Deed::Lock | Deed::LockXact => {
                self.acquire(tag, mode, owner).await?;
                Ok(Cell::Void)
            }
            Deed::Try | Deed::TryXact => {
                let taken = self.engine.lock().locks.try_take(self.pid, tag, mode, owner);
                Ok(Cell::Bool(taken))
            }
            Deed::Unlock => {
                let released = self.engine.lock().locks.release(self.pid, tag, mode, owner);
                if !released {
                    let kind = if of.shared { "ShareLock" } else { "ExclusiveLock" };
                    self.warn("01000", &format!("you don't own a lock of type {kind}"));
                }
                Ok(Cell::Bool(released))
            }
        }
    }

    /// All advisory locks of the session, but not those of the transaction.
    pub(in crate::postgres) fn unlock_all(&mut self) {
        let mut state = self.engine.lock();
        state.locks.release_all(self.pid, |owner| owner == Owner::Session);
    }

    /// Sequences are called `table_column_seq`, as `serial` calls them.
    fn next_value(&mut self, name: &str) -> Result<Cell> {
        let name = name.trim_start_matches("public.");
        let mut state = self.engine.lock();
        for table in state.store.tables.values_mut() {
            let called = |column: &String| format!("{}_{column}_seq", table.name) == name;
            let found = table.columns.iter().position(|column| called(&column.name));
            if let Some(column) = found {
                let last = table.sequences.entry(column).or_default();
                *last += 1;
                return Ok(Cell::Int8(*last));
            }
        }
        Err(PgError::new("42P01", format!("relation \"{name}\" does not exist")))
    }

    fn signal_backend(&mut self, pid: &Cell, wish: Wish) -> Cell {
        let pid = pid.as_int().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        let state = self.engine.lock();
        let found = state.backends.get(&pid).map(|backend| backend.signal.send(wish)).is_some();
        drop(state);
        if !found {
            self.warn("01000", &format!("PID {pid} is not a PostgreSQL server process"));
        }
        Cell::Bool(found)
    }
}
