//! BEGIN, COMMIT, ROLLBACK, savepoints, settings.

use std::sync::Arc;

use super::Session;
use super::statement::Outcome;
use super::xact::Block;
use crate::postgres::clock::pause;
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::SessionAction;
use crate::postgres::types::Cell;

fn done(tag: &str) -> Result<Outcome> {
    Ok(Outcome { tag: tag.to_owned(), fields: None, rows: Vec::new() })
}

fn only_in_blocks(what: &str) -> PgError {
    PgError::new("25P01", format!("{what} can only be used in transaction blocks"))
}

impl Session {
    pub(super) async fn control(&mut self, action: SessionAction) -> Result<Outcome> {
        let in_block = self.xact.block == Block::Explicit;
        match action {
            SessionAction::Begin { start } => {
                match self.xact.block {
                    Block::Explicit => {
                        self.warn("25001", "there is already a transaction in progress");
                    }
                    Block::Implicit => self.xact.block = Block::Explicit,
                    Block::Idle => {
                        let now = self.engine.clock.timestamp();
                        self.xact.begin(Block::Explicit, now);
                    }
                }
                done(if start { "START TRANSACTION" } else { "BEGIN" })
            }
            SessionAction::Commit => {
                if !in_block {
                    self.warn("25P01", "there is no transaction in progress");
                }
                if self.xact.failed {
                    self.roll_back();
                    return done("ROLLBACK");
                }
                self.commit().await;
                done("COMMIT")
            }
            SessionAction::Rollback => {
                if !in_block {
                    self.warn("25P01", "there is no transaction in progress");
                }
                self.roll_back();
                done("ROLLBACK")
            }
            SessionAction::Savepoint(_) if !in_block => Err(only_in_blocks("SAVEPOINT")),
            SessionAction::Savepoint(name) => {
                self.xact.savepoint(&name);
                done("SAVEPOINT")
            }
            SessionAction::RollbackTo(_) if !in_block => {
                Err(only_in_blocks("ROLLBACK TO SAVEPOINT"))
            }
            SessionAction::RollbackTo(name) => {
                let at = self.find_savepoint(&name)?;
                let settings = {
                    let mut state = self.engine.lock();
                    self.xact.roll_back_to(at, &mut state, self.pid)
                };
                self.settings = settings.unwrap_or_else(|| self.settings.clone());
                done("ROLLBACK")
            }
            SessionAction::Release(_) if !in_block => Err(only_in_blocks("RELEASE SAVEPOINT")),
            SessionAction::Release(name) => {
                let at = self.find_savepoint(&name)?;
                let mut state = self.engine.lock();
                self.xact.release(at, &mut state, self.pid);
                drop(state);
                done("RELEASE")
            }
            SessionAction::Set { name, value, local } => {
                self.ensure_xact();
                if local && self.xact.block != Block::Explicit && !self.several {
                    self.warn("25P01", "SET LOCAL can only be used in transaction blocks");
                }
                self.set(&name, value.as_deref(), local)?;
                done("SET")
            }
            SessionAction::Reset(name) => {
                self.ensure_xact();
                self.set(&name, None, false)?;
                done("RESET")
            }
            SessionAction::ResetAll => {
                self.ensure_xact();
                self.xact.keep(&self.settings);
                Arc::make_mut(&mut self.settings).reset_all();
                done("RESET")
            }
            SessionAction::Show(name) => {
                let value = self.settings.get(&name).map(Cell::text);
                let value = value.inspect_err(|_| self.announced = None)?;
                let (fields, rows) = (self.announced.clone(), vec![[value].into()]);
                Ok(Outcome { tag: "SHOW".to_owned(), fields, rows })
            }
            SessionAction::DiscardAll if in_block || self.several => {
                let message = "DISCARD ALL cannot run inside a transaction block";
                Err(PgError::new("25001", message))
            }
            SessionAction::DiscardAll => {
                self.portals.clear();
                self.prepared.clear();
                Arc::make_mut(&mut self.settings).reset_all();
                self.unlock_all();
                done("DISCARD ALL")
            }
            SessionAction::Deallocate(None) => {
                self.prepared.clear();
                done("DEALLOCATE ALL")
            }
            SessionAction::Deallocate(Some(name)) => match self.prepared.remove(&name) {
                Some(_) => done("DEALLOCATE"),
                None => {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    Err(PgError::new("26000", message))
                }
            },
            SessionAction::LockTable if !in_block => Err(only_in_blocks("LOCK TABLE")),
            SessionAction::LockTable => done("LOCK TABLE"),
        }
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        let missing = || PgError::new("3B001", format!("savepoint \"{name}\" does not exist"));
        self.xact.find(name).ok_or_else(missing)
    }

    fn end_local(&mut self) {
        if self.settings.has_local() {
            Arc::make_mut(&mut self.settings).end_local();
        }
    }

    pub fn setting(&self, name: &str) -> Result<&str> {
        self.settings.get(name)
    }

    pub fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        self.xact.keep(&self.settings);
        Arc::make_mut(&mut self.settings).set(name, value, local)
    }

    /// Makes the transaction durable, and then seen. Nothing interrupts that but a crash.
    pub(super) async fn commit(&mut self) {
        let waits_for_disk = self.settings.waits_for_disk();
        if self.xact.has_written() && waits_for_disk {
            let label = "postgres.commit";
            let commit_us = self.engine.settings.commit_us;
            pause(self.engine.latency(label, &self.actor, commit_us)).await;
        }
        let engine = self.engine.clone();
        let mut state = engine.lock();
        if state.life == self.life {
            let now = engine.clock.now();
            self.xact.commit(&mut state, self.pid, |state, xids| {
                state.store.xacts.commit(xids, now, waits_for_disk);
            });
        }
        drop(state);
        self.end_local();
        self.portals.clear();
    }

    pub(super) fn roll_back(&mut self) {
        if self.xact.block == Block::Idle {
            return;
        }
        let settings = {
            let mut state = self.engine.lock();
            match state.life == self.life {
                true => self.xact.abort(&mut state, self.pid),
                false => None,
            }
        };
        self.settings = settings.unwrap_or_else(|| self.settings.clone());
        self.end_local();
        self.portals.clear();
    }

    /// After an error: an implicit transaction is over, an explicit one has failed.
    pub(super) fn fail(&mut self) {
        match self.xact.block {
            Block::Idle => {}
            Block::Implicit => self.roll_back(),
            Block::Explicit if self.xact.failed => {}
            Block::Explicit => {
                let settings = {
                    let mut state = self.engine.lock();
                    match state.life == self.life {
                        true => self.xact.fail(&mut state, self.pid),
                        false => None,
                    }
                };
                self.settings = settings.unwrap_or_else(|| self.settings.clone());
                self.portals.clear();
            }
        }
    }
}
