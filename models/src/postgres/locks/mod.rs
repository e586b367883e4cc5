//! Locks: on tables, on rows, on the end of a transaction, and the advisory ones.
//!
//! One table of them for all kinds, as in the server. Whoever cannot have a lock at once waits in
//! line, first come, first served: a request waits if it conflicts with a holder, or with somebody
//! who waits before it. Who holds a lock on the thing already goes before those who wait for him.

mod deadlock;
mod mode;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::sync::oneshot;

use super::store::{Tid, Xid};
pub use mode::Mode;

/// A connection, by its process id.
pub type Pid = i32;

/// What is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    Table(u32),
    /// The right to wait next for a row; see `exec/rows.rs`.
    Row(u32, Tid),
    /// Held by a transaction while it runs: to share it is to have seen it end.
    Xact(Xid),
    /// A bigint key, or two int keys, which are another space.
    Advisory(bool, i64),
}

/// Who lets go of a lock, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The session, when it is told to or ends.
    Session,
    /// A transaction, or the part of it behind a savepoint, by its level.
    Level(usize),
}

#[derive(Debug)]
struct Hold {
    pid: Pid,
    mode: Mode,
    owner: Owner,
    count: u32,
}

#[derive(Debug)]
struct Wait {
    pid: Pid,
    mode: Mode,
    owner: Owner,
    granted: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct Lock {
    holds: Vec<Hold>,
    line: VecDeque<Wait>,
}

/// Every lock of the server, and the lines before them.
#[derive(Debug, Default)]
pub struct Locks {
    locks: BTreeMap<Tag, Lock>,
    held: BTreeMap<Pid, BTreeSet<Tag>>,
    waiting: BTreeMap<Pid, Tag>,
}

impl Lock {
    fn blocked_by_holder(&self, pid: Pid, mode: Mode) -> bool {
        self.holds.iter().any(|hold| hold.pid != pid && hold.mode.conflicts(mode))
    }

    fn grant(&mut self, pid: Pid, mode: Mode, owner: Owner) {
        let same = |hold: &&mut Hold| (hold.pid, hold.mode, hold.owner) == (pid, mode, owner);
        match self.holds.iter_mut().find(same) {
            Some(hold) => hold.count += 1,
            None => self.holds.push(Hold { pid, mode, owner, count: 1 }),
        }
    }
}

impl Locks {
    /// Takes the lock if nothing is in the way, and nobody waits whom it would keep waiting. One that
    /// is held in this mode is had again.
    pub fn try_take(&mut self, pid: Pid, tag: Tag, mode: Mode, owner: Owner) -> bool {
        let lock = self.locks.entry(tag).or_default();
        let had = lock.holds.iter().any(|hold| (hold.pid, hold.mode) == (pid, mode));
        let behind = lock.line.iter().any(|wait| wait.mode.conflicts(mode));
        if !had && (behind || lock.blocked_by_holder(pid, mode)) {
            return false;
        }
        self.grant(pid, tag, mode, owner);
        true
    }

    fn grant(&mut self, pid: Pid, tag: Tag, mode: Mode, owner: Owner) {
        self.locks.entry(tag).or_default().grant(pid, mode, owner);
        self.held.entry(pid).or_default().insert(tag);
    }

    /// Joins the line; the receiver hears when the lock is had.
    pub fn wait(&mut self, pid: Pid, tag: Tag, mode: Mode, owner: Owner) -> oneshot::Receiver<()> {
        let (granted, ticket) = oneshot::channel();
        let lock = self.locks.entry(tag).or_default();
        let waits_for_me = |wait: &Wait| {
            lock.holds.iter().any(|hold| hold.pid == pid && hold.mode.conflicts(wait.mode))
        };
        let place = lock.line.iter().position(waits_for_me).unwrap_or(lock.line.len());
        let behind = lock.line.iter().take(place).any(|wait| wait.mode.conflicts(mode));
        if place < lock.line.len() && !behind && !lock.blocked_by_holder(pid, mode) {
            self.grant(pid, tag, mode, owner);
            granted.send(()).expect("the other end is right here");
            return ticket;
        }
        lock.line.insert(place, Wait { pid, mode, owner, granted });
        self.waiting.insert(pid, tag);
        ticket
    }

    /// Leaves the line, if still in it; true if the lock had been granted instead.
    pub fn give_up(&mut self, pid: Pid) -> bool {
        let Some(tag) = self.waiting.remove(&pid) else { return true };
        let lock = self.locks.get_mut(&tag).expect("there is a line, so there is a lock");
        lock.line.retain(|wait| wait.pid != pid);
        self.move_up(tag);
        false
    }

    /// Grants what can be granted, in the order of the line.
    fn move_up(&mut self, tag: Tag) {
        let Some(lock) = self.locks.get_mut(&tag) else { return };
        let mut passed_over: Vec<Mode> = Vec::new();
        let mut at = 0;
        while at < lock.line.len() {
            let (pid, mode) = (lock.line[at].pid, lock.line[at].mode);
            let behind = passed_over.iter().any(|before| before.conflicts(mode));
            if behind || lock.blocked_by_holder(pid, mode) {
                passed_over.push(mode);
                at += 1;
                continue;
            }
            let wait = lock.line.remove(at).expect("the index is below the length");
            lock.grant(wait.pid, wait.mode, wait.owner);
            self.held.entry(wait.pid).or_default().insert(tag);
            self.waiting.remove(&wait.pid);
            // Nobody listens when its task is being dropped; its session lets go of all, then.
            let _ = wait.granted.send(());
        }
        if lock.holds.is_empty() && lock.line.is_empty() {
            self.locks.remove(&tag);
        }
    }

    /// Lets go once of one lock; false if it is not held so.
    pub fn release(&mut self, pid: Pid, tag: Tag, mode: Mode, owner: Owner) -> bool {
        let Some(lock) = self.locks.get_mut(&tag) else { return false };
        let this = |hold: &Hold| (hold.pid, hold.mode, hold.owner) == (pid, mode, owner);
        let Some(at) = lock.holds.iter().position(this) else { return false };
        lock.holds[at].count -= 1;
        if lock.holds[at].count == 0 {
            lock.holds.remove(at);
        }
        self.settle(pid, tag);
        true
    }

    /// Lets go of all locks of a session whose owner fits.
    pub fn release_all(&mut self, pid: Pid, fits: impl Fn(Owner) -> bool) {
        let tags: Vec<Tag> = self.held.get(&pid).into_iter().flatten().copied().collect();
        for tag in tags {
            let Some(lock) = self.locks.get_mut(&tag) else { continue };
            let before = lock.holds.len();
            lock.holds.retain(|hold| hold.pid != pid || !fits(hold.owner));
            if lock.holds.len() < before {
                self.settle(pid, tag);
            }
        }
    }

    /// After a lock was let go: forget that it is held, and let the line move up.
    fn settle(&mut self, pid: Pid, tag: Tag) {
        let still = self.locks[&tag].holds.iter().any(|hold| hold.pid == pid);
        if !still && let Some(held) = self.held.get_mut(&pid) {
            held.remove(&tag);
            if held.is_empty() {
                self.held.remove(&pid);
            }
        }
        self.move_up(tag);
    }

    /// RELEASE SAVEPOINT: what these levels held belongs to one below them now.
    pub fn hand_over(&mut self, pid: Pid, from: impl Fn(usize) -> bool, to: usize) {
        let tags: Vec<Tag> = self.held.get(&pid).into_iter().flatten().copied().collect();
        for tag in tags {
            let Some(lock) = self.locks.get_mut(&tag) else { continue };
            let ours = |hold: &Hold| {
                hold.pid == pid && matches!(hold.owner, Owner::Level(level) if from(level))
            };
            while let Some(at) = lock.holds.iter().position(ours) {
                let Hold { mode, count, .. } = lock.holds.remove(at);
                for _ in 0..count {
                    lock.grant(pid, mode, Owner::Level(to));
                }
            }
        }
    }

    /// Is it held already, in any way, in this mode?
    pub fn holds(&self, pid: Pid, tag: Tag, mode: Mode) -> bool {
        let lock = self.locks.get(&tag);
        lock.is_some_and(|lock| lock.holds.iter().any(|hold| (hold.pid, hold.mode) == (pid, mode)))
    }

    /// Who waits.
    pub fn waiting(&self) -> Vec<Pid> {
        self.waiting.keys().copied().collect()
    }

    /// The session is gone.
    pub fn forget(&mut self, pid: Pid) {
        self.give_up(pid);
        self.release_all(pid, |_| true);
    }
}
