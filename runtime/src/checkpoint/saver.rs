//! What the runtime asks of a place that keeps checkpoints.

use std::sync::{Arc, OnceLock};

use futures::future::{BoxFuture, ready};
use serde::{Deserialize, Serialize};

use super::history::{self, DeltaHistories};
use super::id::Ids;
use super::postgres::ServerProblem;
use super::sqlite::FileProblem;
use super::{ChannelVersions, Checkpoint, CheckpointTuple, Metadata, Source, ThreadKey, version};
use crate::doors::Entropy;
use crate::value::Shared;

/// Why a saver could not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SaverError {
    /// The database refused or failed.
    #[error("the checkpoint store failed: {0}")]
    Store(String),
    /// The database's file cannot be used as it is.
    #[error("{path}: {problem}")]
    File { path: String, problem: FileProblem },
    /// The database server could not be had, refused, or failed.
    #[error("the checkpoint store failed: {database}: {text}")]
    Server {
        /// Its name, host and port; never the password.
        database: String,
        problem: ServerProblem,
        /// The server's words, and what to do.
        text: String,
    },
    /// A stored value cannot be read; nothing else of the thread is affected.
    #[error("thread {thread:?}, checkpoint {checkpoint}, {part}: {problem}")]
    Corrupt { thread: String, checkpoint: String, part: String, problem: String },
    /// An older LangGraph wrote the checkpoint, and nothing can go on from it.
    #[error(
        "thread {thread:?}, checkpoint {checkpoint}: layout version {layout} needs migration, which \
         is not supported"
    )]
    OldLayout { thread: String, checkpoint: String, layout: u64 },
    /// The value cannot be stored.
    #[error("channel {channel:?} cannot be stored: {problem}")]
    Unstorable { channel: String, problem: String },
    /// The writer's claim on the thread is older than the thread's deletion; nothing was stored.
    #[error("thread {thread:?} was deleted while this run went on; nothing more of it is stored")]
    Deleted { thread: String },
    /// Somebody else has stored a newer checkpoint meanwhile; nothing was stored.
    #[error(
        "thread {thread:?}: checkpoint {} is no longer the head, {} is; another run went on from \
         there, and this one's checkpoint was not stored",
        parent.as_deref().unwrap_or("(none)"),
        head.as_deref().unwrap_or("(none)")
    )]
    NotHead { thread: String, parent: Option<String>, head: Option<String> },
    /// New checkpoints would not become the thread's head.
    #[error(
        "thread {thread:?} cannot go on: the id of its head, {id}, is greater than any that a \
         checkpoint after it could get; write its values to a new thread"
    )]
    GreatestId { thread: String, id: String },
    /// An earlier write of the same run failed, and what builds on it was not stored either.
    #[error(
        "a checkpoint was not stored, as a write before it that it builds on had failed: {cause}"
    )]
    Unfounded { cause: String },
    /// Somebody has removed the checkpoint meanwhile, and with it what its values are made of.
    #[error(
        "thread {thread:?}, checkpoint {checkpoint} was removed while it was read; read the thread \
         again"
    )]
    Removed { thread: String, checkpoint: String },
    /// A thread cannot be copied over another one.
    #[error("thread {thread:?} already has checkpoints; delete it first, or copy to a new name")]
    Occupied { thread: String },
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

/// A write that was submitted. It goes on when this is dropped.
pub struct Landing(SaverResult<()>);

impl Landing {
    pub fn new(end: impl Future<Output = Result<(), SaverError>> + Send + 'static) -> Landing {
        Landing(Box::pin(end))
    }

    /// Of a checkpoint that has its place when it has landed or failed: it is refused if a write with
    /// its [`Fate`] failed before.
    pub fn of_checkpoint(
        fate: Fate,
        put: impl Future<Output = Result<(), SaverError>> + Send + 'static,
    ) -> BoxFuture<'static, Landing> {
        Box::pin(async move {
            let end = match fate.refusal() {
                Some(refusal) => Err(refusal),
                None => put.await,
            };
            Landing::ended(&fate, end)
        })
    }

    /// Of pending writes that have their place when they have landed or failed.
    pub fn of_writes(
        fate: Fate,
        put: impl Future<Output = Result<(), SaverError>> + Send + 'static,
    ) -> BoxFuture<'static, Landing> {
        Box::pin(async move { Landing::ended(&fate, put.await) })
    }

    fn ended(fate: &Fate, end: Result<(), SaverError>) -> Landing {
        if let Err(error) = &end {
            fate.lose(error);
        }
        Landing::new(ready(end))
    }

    /// Resolves when it has landed or failed.
    pub async fn end(self) -> Result<(), SaverError> {
        self.0.await
    }
}

/// A checkpoint on its way into a store.
#[derive(Debug, Clone)]
pub struct Put {
    pub key: ThreadKey,
    /// The checkpoint that this one follows; an empty id counts as none, as in LangGraph.
    pub parent: Option<Arc<str>>,
    pub checkpoint: Checkpoint,
    pub metadata: Metadata,
    /// The channels whose version moved since the previous put of this run: a store that keeps
    /// values by version need not store the others again.
    pub new_versions: ChannelVersions,
    pub claim: Claim,
    pub fate: Fate,
}

impl Put {
    /// Every channel counts as new, and nothing is claimed.
    pub fn new(
        key: &ThreadKey,
        parent: Option<&str>,
        checkpoint: Checkpoint,
        metadata: Metadata,
    ) -> Put {
        let new_versions = checkpoint.channel_versions.clone();
        let (key, parent) = (key.clone(), parent.map(Arc::from));
        let (claim, fate) = (Claim::default(), Fate::default());
        Put { key, parent, checkpoint, metadata, new_versions, claim, fate }
    }
}

/// What one task wrote, on its way into a store.
#[derive(Debug, Clone)]
pub struct PutWrites {
    pub key: ThreadKey,
    /// The checkpoint that the task started from. It may be stored later, or never.
    pub checkpoint: Arc<str>,
    pub task: Arc<str>,
    /// Where the task stands in its step; the memory saver gives writes back in this order.
    pub task_path: Arc<str>,
    /// Channels and values. The index of a regular write is its position here.
    pub writes: Vec<(Arc<str>, Shared)>,
    pub claim: Claim,
    pub fate: Fate,
}

impl PutWrites {
    /// Nothing is claimed.
    pub fn new(
        key: &ThreadKey,
        checkpoint: &str,
        task: &str,
        task_path: &str,
        writes: Vec<(Arc<str>, Shared)>,
    ) -> PutWrites {
        PutWrites {
            key: key.clone(),
            checkpoint: checkpoint.into(),
            task: task.into(),
            task_path: task_path.into(),
            writes,
            claim: Claim::default(),
            fate: Fate::default(),
        }
    }
}

/// What befell the writes that share this. A run's do, where it submits one before it knows what
/// became of those before ([`Saver::submit_put`]). Clones share it; a default one is nobody's.
#[derive(Debug, Clone, Default)]
pub struct Fate(Option<Arc<OnceLock<SaverError>>>);

impl Fate {
    pub fn shared() -> Fate {
        Fate(Some(Arc::default()))
    }

    /// A write failed. The first failure counts.
    pub fn lose(&self, error: &SaverError) {
        if let Some(first) = &self.0 {
            first.get_or_init(|| error.clone());
        }
    }

    pub fn is_lost(&self) -> bool {
        self.first().is_some()
    }

    /// Why a checkpoint is refused that comes after a write which failed.
    pub fn refusal(&self) -> Option<SaverError> {
        self.first().map(|error| SaverError::Unfounded { cause: error.to_string() })
    }

    fn first(&self) -> Option<&SaverError> {
        self.0.as_ref()?.get()
    }
}

/// What must still be so when a write lands; a saver checks it in the transaction of the write.
/// The default asks for nothing, as LangGraph does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// How often the thread had been deleted when the writer looked at it ([`Saver::look`]). If it was
    /// deleted since, the write is refused ([`SaverError::Deleted`]), unless the saver lets late
    /// writes land ([`LateWrites::Land`]). No clock has a say in it.
    pub deletions: Option<u32>,
    /// Refuse a checkpoint whose parent is not the head of its thread and namespace
    /// ([`SaverError::NotHead`]). Of two runs on one thread the second is then told, where its
    /// checkpoint would have made a fork. One that is stored with this parent already is stored once
    /// more, wherever the head is. Pending writes have no parent and are not refused.
    pub parent_is_head: bool,
}

/// What one who is going to write finds at a thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Look {
    pub tuple: Option<CheckpointTuple>,
    /// How often the thread has been deleted, if the store counts that.
    pub deletions: Option<u32>,
}

/// What becomes of a write that reaches a thread after the thread was deleted (langgraph#7206).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateWrites {
    /// As LangGraph: it lands, and brings a part of the thread back.
    Land,
    /// It is refused. The saver remembers the name of every deleted thread, and how often it was
    /// deleted. Deletions by Python are not remembered.
    #[default]
    Refused,
}

/// What [`Saver::prune`] leaves of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Of each namespace the newest checkpoint with its pending writes, and those ancestors that its
    /// delta channels are rebuilt from.
    Latest,
    Nothing,
}

/// Keeps checkpoints and pending writes. Cheap calls that return futures; a future does nothing
/// until polled, and dropping it may or may not leave the write behind.
pub trait Saver: Send + Sync {
    /// The checkpoint with this id, or the greatest id of the thread and namespace, with its
    /// pending writes.
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>>;

    /// As [`Saver::get_tuple`], for one who is going to write to the thread, with what its writes
    /// claim ([`Claim::deletions`]). Both are of one moment. A store that does not count deletions
    /// says none, and nothing is refused.
    fn look(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Look> {
        let tuple = self.get_tuple(key, id);
        Box::pin(async move { Ok(Look { tuple: tuple.await?, deletions: None }) })
    }

    /// Checkpoints of a thread, newest first; all namespaces when `namespace` is `None`.
    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>>;

    /// Stores a checkpoint under its id, replacing one with the same id.
    fn put(&self, put: Put) -> SaverResult<()>;

    /// Stores a task's writes beside the checkpoint that the task started from. If every channel
    /// is special (see [`super::reserved::fixed_index`]) rows are replaced; otherwise rows that
    /// exist are kept.
    fn put_writes(&self, put: PutWrites) -> SaverResult<()>;

    /// [`Saver::put`] in two parts. Resolves when the checkpoint has its place among this saver's
    /// writes, and gives what tells when it has landed. Writes land in the order of their places,
    /// and a checkpoint is refused ([`SaverError::Unfounded`]) if one with a place before it and the
    /// same [`Fate`] failed; so a run may submit the next write without waiting for the last.
    ///
    /// Here, a checkpoint has its place when it has landed or failed. A saver that keeps an order can
    /// do better. What has a place runs to its end whatever is dropped.
    fn submit_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        Landing::of_checkpoint(put.fate.clone(), self.put(put))
    }

    /// [`Saver::put_writes`] in two parts, as [`Saver::submit_put`].
    fn submit_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        Landing::of_writes(put.fate.clone(), self.put_writes(put))
    }

    /// The version of all channels that change in a step, when `highest` is the greatest before it, or
    /// of one channel that is renewed. Versions are ordered as text, and who shares a database must
    /// agree on them: the default gives those of LangGraph's savers (`get_next_version`). One that
    /// does not begin with a number and a dot cannot be read back. `entropy` keeps those of two
    /// writers apart.
    fn next_version(&self, highest: Option<&str>, entropy: &dyn Entropy) -> Arc<str> {
        version::next_version(highest, entropy)
    }

    /// The id of a new checkpoint of this step, greater than those before: the default is LangGraph's,
    /// a UUID of version 6. `ids` are those of the run.
    fn next_id(&self, ids: &Ids, step: i64) -> Arc<str> {
        ids.mint(step)
    }

    /// What delta channels of the checkpoint with this id, or of the greatest, are rebuilt from. Of a
    /// checkpoint that is not stored there are no entries: it may have been removed after it was read.
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

    /// Copies everything of the thread `from`, in all namespaces and under the same ids, to the
    /// thread `to`, of which nothing may be stored yet ([`SaverError::Occupied`]). A thread of which
    /// nothing is stored gives nothing.
    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()>;

    /// Removes old checkpoints of these threads; one that is not stored is passed over.
    /// [`Keep::Nothing`] is [`Saver::delete_thread`] for each.
    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()>;

    /// Removes every checkpoint, of whatever thread, whose metadata has one of these values as
    /// `run_id`, and the pending writes beside it. Checkpoints that followed stay, with a parent that
    /// is no longer there: delta channels whose past went with it come back incomplete.
    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()>;
}
