//! What makes a killed process fall silent.
//!
//! The simulator runs destructors when it kills a node; a real SIGKILL runs none. So everything
//! through which a process reaches the world asks its fence first, and the fence comes down before
//! the kill.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The fence of one incarnation of one process. It comes down once and never goes up again.
#[derive(Clone)]
pub struct Fence {
    inner: Arc<Inner>,
}

struct Inner {
    up: AtomicBool,
    process: Arc<str>,
    incarnation: u32,
}

impl Fence {
    pub(crate) fn new(process: Arc<str>, incarnation: u32) -> Self {
        Fence { inner: Arc::new(Inner { up: AtomicBool::new(true), process, incarnation }) }
    }

    /// Whether the incarnation may still reach the world.
    pub fn is_up(&self) -> bool {
        self.inner.up.load(Ordering::Relaxed)
    }

    pub fn process(&self) -> &Arc<str> {
        &self.inner.process
    }

    pub fn incarnation(&self) -> u32 {
        self.inner.incarnation
    }

    /// Whether both guard the same incarnation of the same process of the same world.
    pub fn same(&self, other: &Fence) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Brings it down; true if it was up.
    pub(crate) fn lower(&self) -> bool {
        self.inner.up.swap(false, Ordering::Relaxed)
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_up() { "up" } else { "down" };
        write!(f, "Fence({}#{}, {state})", self.process(), self.incarnation())
    }
}
