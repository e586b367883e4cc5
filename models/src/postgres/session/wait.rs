//! Waiting: for locks, for other transactions, for time to pass.

use std::time::Duration;

use super::Session;
use crate::postgres::clock::pause;
use crate::postgres::engine::Wish;
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::{Mode, Owner, Tag};
use crate::postgres::store::Xid;

fn wished(wish: Wish) -> PgError {
    match wish {
        Wish::Cancel => PgError::new("57014", "canceling statement due to user request"),
        Wish::Terminate => ended(),
        Wish::Crash => PgError::fatal("57P02", "terminating connection because of a crash"),
    }
}

pub(super) fn ended() -> PgError {
    PgError::fatal("57P01", "terminating connection due to administrator command")
}

fn timed_out() -> PgError {
    PgError::new("57014", "canceling statement due to statement timeout")
}

impl Session {
    /// Has the lock when it returns well.
    ///
    /// # Errors
    /// 55P03 after `lock_timeout`, 40P01 in a deadlock, 57014 when canceled.
    pub async fn acquire(&mut self, tag: Tag, mode: Mode, owner: Owner) -> Result<()> {
        let ticket = {
            let mut state = self.engine.lock();
            if state.locks.try_take(self.pid, tag, mode, owner) {
                return Ok(());
            }
            state.locks.wait(self.pid, tag, mode, owner)
        };
        let result = self.queue(ticket).await;
        if result.is_err() {
            let mut state = self.engine.lock();
            if state.locks.give_up(self.pid) {
                // Had in the very moment of giving up.
                state.locks.release(self.pid, tag, mode, owner);
            }
        }
        result
    }

    async fn queue(&mut self, mut ticket: tokio::sync::oneshot::Receiver<()>) -> Result<()> {
        let clock = &self.engine.clock;
        let lock_timeout = clock.after(self.settings.time("lock_timeout"));
        let mut look = clock.after(self.settings.time("deadlock_timeout"));
        loop {
            tokio::select! {
                biased;
                // A shutdown ends everybody, also who could go on because another has been ended.
                wish = self.signal.wish(false) => return Err(wished(wish)),
                _ = &mut ticket => return Ok(()),
                () = clock.sleep_until(look) => {
                    if self.engine.lock().locks.in_a_circle(self.pid) {
                        return Err(PgError::new("40P01", "deadlock detected"));
                    }
                    // The server looks once for each wait.
                    look = None;
                }
                () = clock.sleep_until(lock_timeout) => {
                    return Err(PgError::new("55P03", "canceling statement due to lock timeout"));
                }
                () = clock.sleep_until(self.deadline) => return Err(timed_out()),
            }
        }
    }

    /// Returns when that transaction has ended.
    pub async fn wait_for_end(&mut self, xid: Xid) -> Result<()> {
        let (tag, owner) = (Tag::Xact(xid), self.xact.owner());
        self.acquire(tag, Mode::Share, owner).await?;
        self.engine.lock().locks.release(self.pid, tag, Mode::Share, owner);
        Ok(())
    }

    /// Lets time pass; a cancel or a timeout cuts it short.
    pub async fn sleep(&mut self, duration: Duration) -> Result<()> {
        if duration.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            wish = self.signal.wish(false) => Err(wished(wish)),
            () = pause(duration) => Ok(()),
            () = self.engine.clock.sleep_until(self.deadline) => Err(timed_out()),
        }
    }

    /// How long the statement that begins now may run.
    pub(super) fn start_timer(&mut self) {
        self.deadline = self.engine.clock.after(self.settings.time("statement_timeout"));
    }

    /// Returns when the connection has to end although its client has not asked for it.
    pub(super) async fn end_of_idling(&self) -> PgError {
        let limit = match self.status() {
            b'I' => None,
            _ => self.settings.time("idle_in_transaction_session_timeout"),
        };
        tokio::select! {
            biased;
            wish = self.signal.wish(true) => wished(wish),
            () = self.engine.clock.sleep_until(self.engine.clock.after(limit)) => PgError::fatal(
                "25P03",
                "terminating connection due to idle-in-transaction timeout",
            ),
        }
    }
}
