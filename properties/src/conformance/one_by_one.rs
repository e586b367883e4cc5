//! One call after the other, as the recorded stack's saver takes them: under a lock, each to its end
//! on the database's one thread. How far a run gets while another one is being closed shows it.

use std::sync::Arc;

use durasim_runtime::Saver;
use durasim_runtime::checkpoint::saver::{Keep, ListFilter, Put, PutWrites, SaverResult};
use durasim_runtime::checkpoint::{CheckpointTuple, ThreadKey};
use tokio::sync::Mutex;

struct OneByOne {
    inner: Arc<dyn Saver>,
    /// Fair: callers get it in the order in which they come.
    turn: Arc<Mutex<()>>,
}

pub(super) fn one_by_one(inner: Arc<dyn Saver>) -> Arc<dyn Saver> {
    Arc::new(OneByOne { inner, turn: Arc::default() })
}

impl OneByOne {
    fn in_turn<T: 'static>(&self, call: SaverResult<T>) -> SaverResult<T> {
        let turn = self.turn.clone();
        Box::pin(async move {
            let _turn = turn.lock_owned().await;
            call.await
        })
    }
}

impl Saver for OneByOne {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        self.in_turn(self.inner.get_tuple(key, id))
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        self.in_turn(self.inner.list(thread, namespace, filter))
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        self.in_turn(self.inner.put(put))
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        self.in_turn(self.inner.put_writes(put))
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.in_turn(self.inner.delete_thread(thread))
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        self.in_turn(self.inner.copy_thread(from, to))
    }

    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        self.in_turn(self.inner.prune(threads, keep))
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        self.in_turn(self.inner.delete_for_runs(runs))
    }
}
