//! The shared memory of a WAL database, and the eight locks that come with it.
//!
//! SQLite keeps raw pointers into the regions, so each mapping holds them alive; a fenced one keeps
//! its own even after the file has let go of them. While a killed process's destructors run they may
//! still read shared memory, and write to it only when they roll back a transaction that had spilled
//! frames into the WAL: SQLite then clears hash entries beyond the last commit, which nobody uses.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use rusqlite::ffi::{
    SQLITE_BUSY, SQLITE_OK, SQLITE_SHM_EXCLUSIVE, SQLITE_SHM_LOCK, SQLITE_SHM_SHARED,
};

use crate::lock::lock;
use crate::world::Fence;

/// Regions of shared memory, in units of 8 bytes for alignment.
pub(super) type Regions = Arc<Mutex<Vec<Box<[u64]>>>>;

#[derive(Default)]
pub(super) struct Shm {
    regions: Regions,
    users: Vec<User>,
}

struct User {
    id: u64,
    fence: Fence,
    shared: u8,
    exclusive: u8,
}

impl Shm {
    /// Joins (once) and returns the regions for the caller to keep.
    pub(super) fn join(&mut self, id: u64, fence: &Fence) -> Regions {
        if !self.users.iter().any(|u| u.id == id) {
            self.users.push(User { id, fence: fence.clone(), shared: 0, exclusive: 0 });
        }
        self.regions.clone()
    }

    pub(super) fn lock(&mut self, id: u64, first: c_int, n: c_int, flags: c_int) -> c_int {
        let mask = (((1u16 << n) - 1) << first) as u8;
        let held_by_others = |wanted: fn(&User) -> u8| {
            self.users.iter().filter(|u| u.id != id).any(|u| wanted(u) & mask != 0)
        };
        let busy = flags & SQLITE_SHM_LOCK != 0
            && match flags & SQLITE_SHM_EXCLUSIVE != 0 {
                true => held_by_others(|u| u.shared | u.exclusive),
                false => held_by_others(|u| u.exclusive),
            };
        let Some(user) = self.users.iter_mut().find(|u| u.id == id) else {
            return SQLITE_BUSY;
        };
        if busy {
            return SQLITE_BUSY;
        }
        if flags & SQLITE_SHM_LOCK == 0 {
            user.shared &= !mask;
            user.exclusive &= !mask;
        } else if flags & SQLITE_SHM_SHARED != 0 {
            user.shared |= mask;
        } else {
            user.exclusive |= mask;
        }
        SQLITE_OK
    }

    pub(super) fn leave(&mut self, id: u64) {
        self.users.retain(|u| u.id != id);
    }

    pub(super) fn release(&mut self, fence: &Fence) {
        self.users.retain(|u| !u.fence.same(fence));
    }

    pub(super) fn is_unused(&self) -> bool {
        self.users.is_empty()
    }
}

/// The start of a region of `size` bytes; None if it is not there and must not be made.
pub(super) fn region(
    regions: &Regions,
    index: usize,
    size: usize,
    extend: bool,
) -> Option<*mut u64> {
    let mut regions = lock(regions);
    if regions.len() <= index {
        if !extend {
            return None;
        }
        regions.resize_with(index + 1, || vec![0; size.div_ceil(8)].into_boxed_slice());
    }
    Some(regions[index].as_mut_ptr())
}
