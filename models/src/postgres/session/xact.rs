//! The transaction of a session: its levels, one for each savepoint.

use std::sync::Arc;

use super::settings::Settings;
use crate::postgres::engine::State;
use crate::postgres::locks::{Mode, Owner, Pid, Tag};
use crate::postgres::store::{Undo, Xid};

/// How a transaction came about, and so how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// There is none.
    Idle,
    /// Of one statement, one simple query, or one pipeline up to its Sync.
    Implicit,
    /// Since BEGIN.
    Explicit,
}

/// Work that can be taken back as one: the transaction's own, or that behind a savepoint.
#[derive(Debug, Default)]
pub struct Level {
    savepoint: Option<String>,
    xid: Option<Xid>,
    /// Those of released savepoints.
    merged: Vec<Xid>,
    undo: Vec<Undo>,
    /// The settings to go back to, if they were changed.
    settings: Option<Arc<Settings>>,
    aborted: bool,
}

#[derive(Debug)]
pub struct Xact {
    pub block: Block,
    /// An error happened; only its end, or a way back to a savepoint, is accepted.
    pub failed: bool,
    levels: Vec<Level>,
    /// What `now()` shows, in microseconds since 2000.
    pub now: i64,
    pub command: u32,
    /// Were shapes of tables changed?
    defined: bool,
}

impl Default for Xact {
    fn default() -> Xact {
        Xact {
            block: Block::Idle,
            failed: false,
            levels: Vec::new(),
            now: 0,
            command: 0,
            defined: false,
        }
    }
}

impl Xact {
    pub fn begin(&mut self, block: Block, now: i64) {
        *self = Xact { block, levels: vec![Level::default()], now, ..Xact::default() };
    }

    /// The owner of locks that are taken now.
    pub fn owner(&self) -> Owner {
        Owner::Level(self.levels.len().saturating_sub(1))
    }

    /// The ids of the work that has not been taken back.
    pub fn own(&self) -> Vec<Xid> {
        let alive = self.levels.iter().filter(|level| !level.aborted);
        alive.flat_map(|level| level.xid.iter().chain(&level.merged)).copied().collect()
    }

    /// The id under which the next change is made; it is locked until its work ends.
    pub fn xid(&mut self, state: &mut State, pid: Pid) -> Xid {
        let owner = self.owner();
        let level = self.levels.last_mut().expect("a transaction is running");
        if let Some(xid) = level.xid {
            return xid;
        }
        let xid = state.store.xacts.begin();
        let taken = state.locks.try_take(pid, Tag::Xact(xid), Mode::Exclusive, owner);
        assert!(taken, "nobody can have locked an id that did not exist");
        level.xid = Some(xid);
        xid
    }

    pub fn undo(&mut self, undo: Option<Undo>) {
        self.defined = true;
        self.levels.last_mut().expect("a transaction is running").undo.extend(undo);
    }

    /// Remembers the settings before their first change.
    pub fn keep(&mut self, settings: &Arc<Settings>) {
        if let Some(level) = self.levels.last_mut() {
            level.settings.get_or_insert_with(|| settings.clone());
        }
    }

    pub fn savepoint(&mut self, name: &str) {
        let level = Level { savepoint: Some(name.to_owned()), ..Level::default() };
        self.levels.push(level);
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.levels.iter().rposition(|level| level.savepoint.as_deref() == Some(name))
    }

    /// RELEASE: the level and those above it become part of the one below.
    pub fn release(&mut self, at: usize, state: &mut State, pid: Pid) {
        for level in self.levels.drain(at..).collect::<Vec<_>>() {
            let below = self.levels.last_mut().expect("the first level is no savepoint");
            below.merged.extend(level.xid);
            below.merged.extend(level.merged);
            below.undo.extend(level.undo);
            if below.settings.is_none() {
                below.settings = level.settings;
            }
        }
        let top = self.levels.len() - 1;
        state.locks.hand_over(pid, |level| level >= at, top);
    }

    /// ROLLBACK TO: the level and those above it are taken back, and the level begins anew.
    pub fn roll_back_to(
        &mut self,
        at: usize,
        state: &mut State,
        pid: Pid,
    ) -> Option<Arc<Settings>> {
        let name = self.levels[at].savepoint.clone();
        let settings = self.abort_from(at, state, pid);
        self.levels.truncate(at);
        self.levels.push(Level { savepoint: name, ..Level::default() });
        self.failed = false;
        settings
    }

    /// An error: the innermost level is taken back. Its place stays until the client leaves it.
    pub fn fail(&mut self, state: &mut State, pid: Pid) -> Option<Arc<Settings>> {
        self.failed = true;
        self.abort_from(self.levels.len().saturating_sub(1), state, pid)
    }

    fn abort_from(&mut self, at: usize, state: &mut State, pid: Pid) -> Option<Arc<Settings>> {
        let mut settings = None;
        for level in self.levels[at..].iter_mut().rev() {
            level.aborted = true;
            level.undo.drain(..).rev().for_each(|undo| state.store.undo(undo));
            let xids = level.xid.take().into_iter().chain(level.merged.drain(..));
            xids.for_each(|xid| state.store.xacts.abort(xid));
            settings = level.settings.take().or(settings);
        }
        state.locks.release_all(pid, |owner| matches!(owner, Owner::Level(level) if level >= at));
        if self.defined {
            state.store.shape += 1;
        }
        settings
    }

    /// ROLLBACK, and the end of the connection.
    pub fn abort(&mut self, state: &mut State, pid: Pid) -> Option<Arc<Settings>> {
        let settings = self.abort_from(0, state, pid);
        *self = Xact::default();
        settings
    }

    /// The ids to commit; the caller has made them durable and now lets everybody see them.
    pub fn commit(
        &mut self,
        state: &mut State,
        pid: Pid,
        commit: impl FnOnce(&mut State, Vec<Xid>),
    ) {
        let xids = self.own();
        if !xids.is_empty() {
            commit(state, xids);
        }
        if self.defined {
            state.store.shape += 1;
        }
        state.locks.release_all(pid, |owner| owner != Owner::Session);
        *self = Xact::default();
    }

    /// Has it changed anything that would have to be made durable?
    pub fn has_written(&self) -> bool {
        self.levels.iter().any(|level| level.xid.is_some() || !level.merged.is_empty())
    }
}
