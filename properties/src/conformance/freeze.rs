//! Stops a process right after one of its durable writes.
//!
//! A kill needs somebody to come and do it, and in between the process would go on. A frozen one
//! does nothing that lasts any more: no write, no read, no effect.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

pub(super) struct Freeze {
    /// Freezes after so many writes.
    after: u64,
    writes: AtomicU64,
    is_frozen: AtomicBool,
    froze: Notify,
    /// Tasks whose own writes were acknowledged: they are finished for good.
    finished: Mutex<BTreeSet<String>>,
}

impl Freeze {
    pub fn never() -> Freeze {
        Freeze::after(u64::MAX)
    }

    /// After the `writes`-th durable write; 0 before the first.
    pub fn after(writes: u64) -> Freeze {
        Freeze {
            after: writes,
            writes: AtomicU64::new(0),
            is_frozen: AtomicBool::new(false),
            froze: Notify::new(),
            finished: Mutex::default(),
        }
    }

    /// Goes on unless the process is frozen; then never.
    pub async fn hold(&self) {
        if self.is_frozen.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }

    /// Before a write begins.
    pub async fn before_write(&self) {
        if self.after == 0 {
            self.freeze();
        }
        self.hold().await;
    }

    /// A write was acknowledged by the store. `task` has finished by it, if it says so.
    pub async fn after_write(&self, task: Option<&str>) {
        // One that was under way when the process froze has landed all the same.
        if let Some(task) = task {
            self.finished.lock().unwrap().insert(task.to_owned());
        }
        if self.writes.fetch_add(1, Ordering::SeqCst) + 1 == self.after {
            self.freeze();
        }
        self.hold().await;
    }

    fn freeze(&self) {
        self.is_frozen.store(true, Ordering::SeqCst);
        self.froze.notify_one();
    }

    /// Resolves when the process has frozen.
    pub async fn frozen(&self) {
        self.froze.notified().await;
    }

    #[cfg(madsim)]
    pub fn finished(&self) -> BTreeSet<String> {
        self.finished.lock().unwrap().clone()
    }
}
