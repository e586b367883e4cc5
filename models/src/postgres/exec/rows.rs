//! Locking one row, and finding its newest version on the way.
//!
//! A row is locked by its transaction's id in the version; whoever finds a running one there waits
//! for that transaction's end. Before that he takes a lock on the row's place, so that of several
//! waiters the first come is the next to go. The server does the same (README.tuplock in its sources).
//! There, of three and more waiters the later ones may overtake each other once the row has moved on
//! to a new version; here they go in the order in which they find it.

use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::{Mode, Tag};
use crate::postgres::session::{Run, Session};
use crate::postgres::sql::WaitPolicy;
use crate::postgres::store::{Tid, Xid};
use crate::postgres::types::Row;

/// What became of an attempt to lock a row.
pub enum Locked {
    /// It is ours. `moved` if it was changed since the snapshot: this is the newest version.
    Row { tid: Tid, row: Row, moved: bool },
    /// Deleted meanwhile, or changed by this very command.
    Gone,
    /// Somebody has it, and we do not wait.
    Skipped,
}

enum Look {
    Ours(Row),
    Moved(Tid),
    Gone,
    Taken(Xid),
}

impl Session {
    pub(super) async fn lock_row(
        &mut self,
        run: &mut Run,
        table: u32,
        tid: Tid,
        policy: WaitPolicy,
    ) -> Result<Locked> {
        let mut in_line = None;
        let result = self.lock_newest(run, table, tid, policy, &mut in_line).await;
        if let Some(tag) = in_line {
            let owner = self.xact.owner();
            self.engine.lock().locks.release(self.pid, tag, Mode::Exclusive, owner);
        }
        result
    }

    async fn lock_newest(
        &mut self,
        run: &mut Run,
        table: u32,
        mut tid: Tid,
        policy: WaitPolicy,
        in_line: &mut Option<Tag>,
    ) -> Result<Locked> {
        let mut moved = false;
        loop {
            match self.look_at_row(run, table, tid) {
                Look::Ours(row) => return Ok(Locked::Row { tid, row, moved }),
                Look::Gone => return Ok(Locked::Gone),
                Look::Moved(next) => {
                    if let Some(tag) = in_line.take() {
                        let owner = self.xact.owner();
                        self.engine.lock().locks.release(self.pid, tag, Mode::Exclusive, owner);
                    }
                    tid = next;
                    moved = true;
                }
                Look::Taken(xid) => match policy {
                    WaitPolicy::Skip => return Ok(Locked::Skipped),
                    WaitPolicy::Error => {
                        let name = self.engine.lock().store.table(table).name.clone();
                        let message =
                            format!("could not obtain lock on row in relation \"{name}\"");
                        return Err(PgError::new("55P03", message));
                    }
                    WaitPolicy::Block if in_line.is_none() => {
                        let tag = Tag::Row(table, tid);
                        let owner = self.xact.owner();
                        self.acquire(tag, Mode::Exclusive, owner).await?;
                        *in_line = Some(tag);
                    }
                    WaitPolicy::Block => self.wait_for_end(xid).await?,
                },
            }
        }
    }

    /// Takes the row if nobody has it.
    fn look_at_row(&mut self, run: &mut Run, table: u32, tid: Tid) -> Look {
        let own = self.run_xid(run);
        let mut state = self.engine.lock();
        let store = &mut state.store;
        let version = store.table(table).versions[&tid].clone();
        let xacts = &store.xacts;
        if let Some((xid, _)) = version.ended.filter(|(xid, _)| !xacts.is_aborted(*xid)) {
            return match version.next {
                _ if run.snapshot.is_own(xid) => Look::Gone,
                _ if xacts.is_running(xid) => Look::Taken(xid),
                Some(next) => Look::Moved(next),
                None => Look::Gone,
            };
        }
        match version.locker {
            Some(xid) if xacts.is_running(xid) && run.snapshot.is_own(xid) => {}
            Some(xid) if xacts.is_running(xid) => return Look::Taken(xid),
            _ => {
                let table = store.table_mut(table);
                table.versions.get_mut(&tid).expect("it was just looked at").locker = Some(own);
            }
        }
        Look::Ours(store.table(table).whole(&version.row))
    }
}
