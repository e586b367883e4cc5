//! Do waiters wait for each other in a circle?

use std::collections::BTreeSet;

use super::{Locks, Pid};

impl Locks {
    /// Whether `pid` waits, over any number of others, for itself. The server looks once, when
    /// somebody has waited for `deadlock_timeout`, and the one who looks is the one who fails.
    ///
    /// Places in a line count like holders. The server would first try to reorder a line; that can
    /// help only where modes of different strength meet on one table.
    pub fn in_a_circle(&self, pid: Pid) -> bool {
        let mut seen = BTreeSet::new();
        let mut ahead = self.waits_for(pid);
        while let Some(next) = ahead.pop() {
            if next == pid {
                return true;
            }
            if seen.insert(next) {
                ahead.extend(self.waits_for(next));
            }
        }
        false
    }

    fn waits_for(&self, pid: Pid) -> Vec<Pid> {
        let Some(lock) = self.waiting.get(&pid).and_then(|tag| self.locks.get(tag)) else {
            return Vec::new();
        };
        let Some(place) = lock.line.iter().position(|wait| wait.pid == pid) else {
            return Vec::new();
        };
        let mode = lock.line[place].mode;
        let holders = lock.holds.iter().filter(|hold| hold.pid != pid);
        let holders = holders.filter(|hold| hold.mode.conflicts(mode)).map(|hold| hold.pid);
        let before = lock.line.iter().take(place).filter(|wait| wait.mode.conflicts(mode));
        holders.chain(before.map(|wait| wait.pid)).collect()
    }
}
