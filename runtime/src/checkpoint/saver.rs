//! What the runtime asks of a place that keeps checkpoints.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::history::{self, DeltaHistories};
use super::{ChannelVersions, Checkpoint, CheckpointTuple, Metadata, Source, ThreadKey};
use crate::value::Shared;

/// Why a saver could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SaverError {
    /// The database refused or failed.
    #[error("the checkpoint store failed: {0}")]
    Store(String),
    /// A stored value cannot be read; nothing else of the thread is affected.
    #[error("thread {thread:?}, checkpoint {checkpoint}, {part}: {problem}")]
    Corrupt { thread: String, checkpoint: String, part: String, problem: String },
    /// The value cannot be stored.
    #[error("channel {channel:?} cannot be stored: {problem}")]
    Unstorable { channel: String, problem: String },
    /// The task that did the work was cancelled or its process is going down.
    #[error("the store's worker was cancelled; whether the write landed is unknown")]
    Cancelled,
}

/// Which checkpoints a listing returns, newest first.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// Only checkpoints with an id below this one.
    pub before: Option<Arc<str>>,
    pub limit: Option<usize>,
    /// Metadata keys that must have exactly these values. Null also fits a key that is not there,
    /// as in both of Python's savers.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl ListFilter {
    /// Does a checkpoint with this metadata have the values asked for?
    pub fn accepts(&self, metadata: &Metadata) -> bool {
        self.metadata.iter().all(|(key, wanted)| match key.as_str() {
            "source" if metadata.source == Source::Anchor => wanted.is_null(),
            "source" => wanted == metadata.source.name(),
            "step" => *wanted == metadata.step,
            "parents" => *wanted == serde_json::json!(metadata.parents),
            _ => metadata.extra.get(key).unwrap_or(&serde_json::Value::Null) == wanted,
        })
    }
}

pub type SaverResult<T> = BoxFuture<'static, Result<T, SaverError>>;

/// Keeps checkpoints and pending writes. Cheap calls that return futures; a future does nothing
/// until polled, and dropping it may or may not leave the write behind.
pub trait Saver: Send + Sync {
    /// The checkpoint with this id, or the greatest id of the thread and namespace, with its
    /// pending writes.
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>>;

    /// Checkpoints of a thread, newest first; all namespaces when `namespace` is `None`.
    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>>;

    /// Stores a checkpoint under its id, replacing one with the same id. `new_versions` holds the
    /// channels whose version moved since the previous put of this run.
    fn put(
        &self,
        key: &ThreadKey,
        parent: Option<&str>,
        checkpoint: Checkpoint,
        metadata: Metadata,
        new_versions: ChannelVersions,
    ) -> SaverResult<()>;

    /// Stores a task's writes beside the checkpoint that the task started from. If every channel
    /// is special (see [`super::reserved::fixed_index`]) rows are replaced; otherwise rows that
    /// exist are kept. The index of a regular write is its position in this call.
    fn put_writes(
        &self,
        key: &ThreadKey,
        checkpoint: &str,
        task: &str,
        task_path: &str,
        writes: Vec<(Arc<str>, Shared)>,
    ) -> SaverResult<()>;

    /// What delta channels of the checkpoint with this id, or of the greatest, are rebuilt from. An
    /// unknown checkpoint has no past.
    ///
    /// Follows parents, so that of a thread with branches only the checkpoint's own past counts; each
    /// channel by itself, as far as the nearest ancestor that holds it. This default asks for one
    /// tuple after the other; a saver that can do better should.
    fn get_delta_channel_history<'a>(
        &'a self,
        key: &ThreadKey,
        id: Option<&str>,
        channels: &[Arc<str>],
    ) -> BoxFuture<'a, Result<DeltaHistories, SaverError>> {
        let (key, id, channels) = (key.clone(), id.map(Arc::from), channels.to_vec());
        Box::pin(history::by_tuples(self, key, id, channels))
    }

    /// Removes everything of a thread, in all namespaces.
    fn delete_thread(&self, thread: &str) -> SaverResult<()>;
}
