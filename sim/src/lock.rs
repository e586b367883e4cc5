//! Locking that outlives a panic.
//!
//! A panic in one simulated process is an ordinary event of a run: the world goes on, so a mutex it
//! happened to hold must not stay poisoned. Guards are never held across an await.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
