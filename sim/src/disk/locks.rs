//! SQLite's file locks: many SHARED, one RESERVED beside them, PENDING to let readers run out, one
//! EXCLUSIVE alone.

use rusqlite::ffi::{
    SQLITE_BUSY, SQLITE_LOCK_EXCLUSIVE as EXCLUSIVE, SQLITE_LOCK_NONE as NONE,
    SQLITE_LOCK_PENDING as PENDING, SQLITE_LOCK_RESERVED as RESERVED, SQLITE_LOCK_SHARED as SHARED,
    SQLITE_OK,
};
use std::ffi::c_int;

use crate::world::Fence;

#[derive(Default)]
pub(super) struct Locks {
    holders: Vec<Holder>,
}

struct Holder {
    id: u64,
    fence: Fence,
    level: c_int,
}

impl Locks {
    /// SQLITE_OK or SQLITE_BUSY.
    pub(super) fn lock(&mut self, id: u64, fence: &Fence, want: c_int) -> c_int {
        let held = self.level(id);
        if held >= want {
            return SQLITE_OK;
        }
        let others = self.holders.iter().filter(|h| h.id != id).map(|h| h.level).max();
        let others = others.unwrap_or(NONE);
        let granted = match want {
            SHARED => others < PENDING,
            RESERVED => others < RESERVED,
            _ => others == NONE,
        };
        if granted {
            self.set(id, fence, want);
            return SQLITE_OK;
        }
        if want == EXCLUSIVE && held == RESERVED && others == SHARED {
            self.set(id, fence, PENDING);
        }
        SQLITE_BUSY
    }

    pub(super) fn unlock(&mut self, id: u64, to: c_int) {
        if to == NONE {
            self.holders.retain(|h| h.id != id);
        } else if let Some(holder) = self.holders.iter_mut().find(|h| h.id == id) {
            holder.level = holder.level.min(to);
        }
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.holders.iter().any(|h| h.level >= RESERVED)
    }

    pub(super) fn release(&mut self, fence: &Fence) {
        self.holders.retain(|h| !h.fence.same(fence));
    }

    fn level(&self, id: u64) -> c_int {
        self.holders.iter().find(|h| h.id == id).map_or(NONE, |h| h.level)
    }

    fn set(&mut self, id: u64, fence: &Fence, level: c_int) {
        match self.holders.iter_mut().find(|h| h.id == id) {
            Some(holder) => holder.level = level,
            None => self.holders.push(Holder { id, fence: fence.clone(), level }),
        }
    }
}
