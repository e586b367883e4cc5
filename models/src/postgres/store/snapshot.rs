//! What one statement sees: everything committed before it began, and its own transaction's work.

use super::{Status, Version, Xacts, Xid};

#[derive(Debug, Clone)]
pub struct Snapshot {
    commits: u64,
    own: Vec<Xid>,
    /// Changes that the own transaction made in this command or later are not seen: a statement
    /// does not meet its own rows.
    command: u32,
}

impl Snapshot {
    pub fn new(xacts: &Xacts, own: Vec<Xid>, command: u32) -> Snapshot {
        Snapshot { commits: xacts.commits(), own, command }
    }

    fn sees(&self, xacts: &Xacts, xid: Xid, command: u32) -> bool {
        match xacts.status(xid) {
            Status::Committed(place) => place <= self.commits,
            Status::Running => self.own.contains(&xid) && command < self.command,
            Status::Aborted => false,
        }
    }

    pub fn add_own(&mut self, xid: Xid) {
        self.own.push(xid);
    }

    pub fn own(&self) -> &[Xid] {
        &self.own
    }

    pub fn is_own(&self, xid: Xid) -> bool {
        self.own.contains(&xid)
    }

    pub fn visible(&self, xacts: &Xacts, version: &Version) -> bool {
        let ended = |(xid, command): (Xid, u32)| self.sees(xacts, xid, command);
        self.sees(xacts, version.made.0, version.made.1) && !version.ended.is_some_and(ended)
    }
}
