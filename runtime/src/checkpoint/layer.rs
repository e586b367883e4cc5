//! Savers around savers.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::history::DeltaHistories;
use super::id::Ids;
use super::saver::{
    Keep, Landing, ListFilter, Look, Put, PutWrites, Saver, SaverError, SaverResult,
};
use super::{CheckpointTuple, ThreadKey};
use crate::doors::Entropy;

/// A saver that does something with the writes on their way to another one: counts them, delays them,
/// changes them. Everything else goes to the other one as it is.
///
/// Both ways of writing, in one part and in two ([`Saver::submit_put`]), come by here.
pub trait Layer: Send + Sync {
    fn inner(&self) -> &dyn Saver;

    /// [`Saver::submit_put`].
    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        self.inner().submit_put(put)
    }

    /// [`Saver::submit_writes`].
    fn on_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        self.inner().submit_writes(put)
    }
}

impl<L: Layer> Saver for L {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        self.inner().get_tuple(key, id)
    }

    fn look(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Look> {
        self.inner().look(key, id)
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        self.inner().list(thread, namespace, filter)
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        let submitted = self.on_put(put);
        Box::pin(async move { submitted.await.end().await })
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        let submitted = self.on_writes(put);
        Box::pin(async move { submitted.await.end().await })
    }

    fn submit_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        self.on_put(put)
    }

    fn submit_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        self.on_writes(put)
    }

    fn next_version(&self, highest: Option<&str>, entropy: &dyn Entropy) -> Arc<str> {
        self.inner().next_version(highest, entropy)
    }

    fn next_id(&self, ids: &Ids, step: i64) -> Arc<str> {
        self.inner().next_id(ids, step)
    }

    fn get_delta_channel_history<'a>(
        &'a self,
        key: &ThreadKey,
        id: Option<&str>,
        channels: &[Arc<str>],
    ) -> BoxFuture<'a, Result<DeltaHistories, SaverError>> {
        self.inner().get_delta_channel_history(key, id, channels)
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.inner().delete_thread(thread)
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        self.inner().copy_thread(from, to)
    }

    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        self.inner().prune(threads, keep)
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        self.inner().delete_for_runs(runs)
    }
}
