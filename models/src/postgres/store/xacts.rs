//! Which transactions run, have committed, or have aborted.

use std::time::Duration;

/// A transaction or a part of one behind a savepoint. Counted from 1; 0 is what was always there.
pub type Xid = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Running,
    /// The place of the commit in the order of commits.
    Committed(u64),
    Aborted,
}

/// A commit that a crash may still undo: its client was answered before it reached the disk.
#[derive(Debug)]
struct Unflushed {
    at: Duration,
    xids: Vec<Xid>,
}

/// The list of transactions: what a real server keeps in its commit log.
#[derive(Debug)]
pub struct Xacts {
    statuses: Vec<Status>,
    commits: u64,
    unflushed: Vec<Unflushed>,
}

impl Default for Xacts {
    fn default() -> Xacts {
        Xacts { statuses: vec![Status::Committed(0)], commits: 0, unflushed: Vec::new() }
    }
}

impl Xacts {
    pub fn begin(&mut self) -> Xid {
        self.statuses.push(Status::Running);
        self.newest()
    }

    pub fn status(&self, xid: Xid) -> Status {
        self.statuses[usize::try_from(xid).expect("a count of what is in memory")]
    }

    pub fn is_running(&self, xid: Xid) -> bool {
        self.status(xid) == Status::Running
    }

    pub fn is_aborted(&self, xid: Xid) -> bool {
        self.status(xid) == Status::Aborted
    }

    pub fn is_committed(&self, xid: Xid) -> bool {
        matches!(self.status(xid), Status::Committed(_))
    }

    /// The number of commits so far: a snapshot sees those, and no later one.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    fn newest(&self) -> Xid {
        Xid::try_from(self.statuses.len() - 1).expect("a count of what is in memory")
    }

    fn set(&mut self, xid: Xid, status: Status) {
        self.statuses[usize::try_from(xid).expect("a count of what is in memory")] = status;
    }

    pub fn abort(&mut self, xid: Xid) {
        self.set(xid, Status::Aborted);
    }

    /// Commits all of them at once. Waiting for the disk makes everything before durable, too, as
    /// the log is one.
    pub fn commit(&mut self, xids: Vec<Xid>, at: Duration, waits_for_disk: bool) {
        self.commits += 1;
        xids.iter().for_each(|xid| self.set(*xid, Status::Committed(self.commits)));
        match waits_for_disk {
            true => self.unflushed.clear(),
            false => self.unflushed.push(Unflushed { at, xids }),
        }
    }

    /// A crash: what runs is aborted, and of the commits that nobody waited for those go that the
    /// log writer has not come round to.
    pub fn crash(&mut self, now: Duration, writer_delay: Duration) {
        self.flush(now, writer_delay);
        let lost: Vec<Xid> = self.unflushed.drain(..).flat_map(|commit| commit.xids).collect();
        lost.into_iter().for_each(|xid| self.set(xid, Status::Aborted));
        for status in &mut self.statuses {
            if *status == Status::Running {
                *status = Status::Aborted;
            }
        }
    }

    /// What the log writer has written by now.
    pub fn flush(&mut self, now: Duration, writer_delay: Duration) {
        self.unflushed.retain(|commit| commit.at + writer_delay > now);
    }

    /// May a crash still bring back what is dead now?
    pub fn has_unflushed(&self) -> bool {
        !self.unflushed.is_empty()
    }
}
