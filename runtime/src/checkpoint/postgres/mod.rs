//! Checkpoints in PostgreSQL, in the very tables of langgraph-checkpoint-postgres 3.1.1: Python
//! LangGraph can continue a thread that was written here, and the reverse.

mod connection;
mod dismissal;
mod document;
mod errors;
mod history;
mod lanes;
mod lock;
mod migrations;
mod prepared;
mod problem;
mod put;
mod rows;
mod statements;
mod target;
mod threads;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod together;
mod wire;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::codec::encode_metadata;
use super::history::DeltaHistories;
use super::memory::{parent_id, point};
use super::saver::{
    Keep, Landing, LateWrites, ListFilter, Look, Put, PutWrites, Saver, SaverError, SaverResult,
};
use super::{CheckpointTuple, ThreadKey};
use crate::doors::{Doors, Operation};
use connection::{Again, Store};
use lanes::{Kind, Lanes};
pub use problem::ServerProblem;
use put::{CheckpointRows, WriteRows};
use together::Rows;

/// Choices for [`PostgresSaver::open_with`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Connections are made when they are needed and kept.
    pub max_connections: usize,
    /// How long a call waits for a connection before it fails: for one that others use, or one that
    /// is being made.
    pub acquire_limit: Duration,
    /// How long a call waits for the server's answer before it fails, and its connection with it; the
    /// server is asked to stop. Whether the call took effect is unknown then.
    pub answer_limit: Duration,
    /// How long a call, or opening the database, is tried again and again while the server cannot be
    /// reached or breaks connections off, as when it is restarted, before it fails.
    pub outage_limit: Duration,
    /// Certificates of the authorities that `sslmode=verify-full` believes, as PEM. Without them it
    /// believes those that browsers do.
    pub root_certificates: Option<Arc<str>>,
    pub late_writes: LateWrites,
    /// Has each connection keep the statements prepared that store checkpoints and writes, from the
    /// second time on, so that the server need not read and plan them again: on loopback a step at sync
    /// takes a third less. Reads are not prepared, nor are checkpoints whose parent must be the head
    /// (`Forks::Refused`).
    ///
    /// For direct connections, and poolers that lend a session for as long as the client wants it.
    /// Behind one that lends it for a transaction the saver notices, before anything is done, and goes
    /// on without; a few names stay behind in the pooler's sessions. A table that is made in front of
    /// another one of its name in the `search_path` is written to by new connections only.
    pub prepared_statements: bool,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            max_connections: 10,
            acquire_limit: Duration::from_secs(30),
            answer_limit: Duration::from_secs(60),
            outage_limit: Duration::from_secs(10),
            root_certificates: None,
            late_writes: LateWrites::default(),
            prepared_statements: false,
        }
    }
}

/// Keeps checkpoints in a PostgreSQL database over a few connections. Several savers, also of other
/// processes and of Python, may use the same database, directly or behind a pooler.
///
/// A call may be dropped wherever it waits. The server is asked to stop then; what was sent lands as a
/// whole or not at all, and nobody else waits for it, unless for its connection.
///
/// A call is made again, for as long as [`PostgresOptions::outage_limit`] allows, when the server
/// cannot be reached, has no connection left, or undid it because of a deadlock or a conflict. When
/// the connection breaks after the call was sent, nobody knows whether it took effect; every call but
/// [`Saver::copy_thread`] is made again then too, as twice is as good as once: a checkpoint is stored
/// under its id, rows of writes under their index, and what was removed is gone. An error means
/// that the call is not known to have taken effect; `Ok` means that the server has committed it.
///
/// What differs from the SQLite saver is PostgreSQL's, or LangGraph's saver for it: no name may hold
/// U+0000, nor a string that is a channel's whole value, which may not be NaN or an infinity either; a
/// checkpoint that is stored once more keeps its parent, and a value that was changed under its old
/// version is not stored again.
///
/// A float from 2^64 on that Python stores as a channel's whole value comes back from PostgreSQL as an
/// integer, for Python as well as here. Nodes may read it as `f64`, `i128` or `u128`. A `Value` of it
/// is an extension that stands for Python's `int(digits)`; in a channel of its own it is stored with
/// its digits again. Inside a list or among pending writes Python makes an integer of it, or, if it
/// deserializes strictly (`LANGGRAPH_STRICT_MSGPACK`), a text.
///
/// [`Keep::Latest`] and [`Saver::delete_for_runs`] remove values that no checkpoint holds any more. A
/// run that goes on from a checkpoint which went meanwhile relies on such values, and its next one
/// comes back without them; use both on threads that nobody is at.
pub struct PostgresSaver {
    store: Store,
    lanes: Lanes,
}

impl PostgresSaver {
    /// Opens the database with the default options, making its tables where they are missing; that
    /// takes a second connection meanwhile. The limits of [`PostgresOptions`] hold for it, but for the
    /// building of an index, which takes as long as it takes.
    ///
    /// The URL is libpq's: `postgres://user:password@host:port/database?sslmode=...`, with several
    /// hosts if need be, which are tried in order. Of its parameters are supported `sslmode`
    /// (`disable`, `prefer`, `require`, `verify-full`), `sslnegotiation`, `channel_binding`,
    /// `hostaddr`, `connect_timeout`, `application_name` and `options`, such as
    /// `options=-csearch_path%3Dmy_schema`; what is not is an error.
    pub fn open(
        url: &str,
        doors: &Doors,
    ) -> impl Future<Output = Result<Arc<PostgresSaver>, SaverError>> + Send + use<> {
        PostgresSaver::open_with(url, doors, PostgresOptions::default())
    }

    pub fn open_with(
        url: &str,
        doors: &Doors,
        options: PostgresOptions,
    ) -> impl Future<Output = Result<Arc<PostgresSaver>, SaverError>> + Send + use<> {
        let store = Store::new(url, doors, options);
        async move {
            let store = store?;
            migrations::migrate(&store).await.map_err(|failure| store.error(failure))?;
            let lanes = Lanes::new(&store);
            Ok(Arc::new(PostgresSaver { store, lanes }))
        }
    }

    /// Calls that come later fail, and connections go when the calls under way are over.
    pub fn close(&self) {
        self.store.close();
    }
}

impl Saver for PostgresSaver {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        self.store.call(point, Again::Yes, (key.clone(), id), |(key, id), client| {
            Box::pin(rows::get(client, key, id.as_deref()))
        })
    }

    fn look(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Look> {
        if self.store.options.late_writes == LateWrites::Land {
            let tuple = self.get_tuple(key, id);
            return Box::pin(async move { Ok(Look { tuple: tuple.await?, deletions: None }) });
        }
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        self.store.call(point, Again::Yes, (key.clone(), id), |(key, id), client| {
            Box::pin(rows::look(client, key, id.as_deref()))
        })
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        let thread: Arc<str> = thread.into();
        let namespace: Option<Arc<str>> = namespace.map(Arc::from);
        let point = point(Operation::SaverRead, &thread, "");
        let asked = (thread, namespace, filter);
        self.store.call(point, Again::Yes, asked, |(thread, namespace, filter), client| {
            Box::pin(rows::list(client, thread, namespace.as_deref(), filter))
        })
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        let submitted = self.submit_put(put);
        Box::pin(async move { submitted.await.end().await })
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        let submitted = self.submit_writes(put);
        Box::pin(async move { submitted.await.end().await })
    }

    fn submit_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        let (lanes, late_writes) = (self.lanes.clone(), self.store.options.late_writes);
        Box::pin(async move {
            let Put { key, parent, checkpoint, metadata, new_versions, claim, fate } = put;
            let point = point(Operation::SaverWrite, &key.thread, &checkpoint.id);
            let thread = key.thread.clone();
            let rows = document::write(&checkpoint, &new_versions).map(|(document, blobs)| {
                let metadata = encode_metadata(&metadata);
                Rows::Checkpoint(CheckpointRows {
                    key,
                    id: checkpoint.id,
                    parent: parent_id(parent),
                    document,
                    metadata: String::from_utf8(metadata).expect("JSON is UTF-8"),
                    blobs,
                    claim,
                    late_writes,
                })
            });
            lanes.submit((thread, Kind::Checkpoint), point, rows, fate).await
        })
    }

    fn submit_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        let (lanes, late_writes) = (self.lanes.clone(), self.store.options.late_writes);
        Box::pin(async move {
            let point = point(Operation::SaverWrite, &put.key.thread, &put.checkpoint);
            let (thread, fate) = (put.key.thread.clone(), put.fate.clone());
            let rows = WriteRows::new(put, late_writes).map(Rows::Writes);
            lanes.submit((thread, Kind::Writes), point, rows, fate).await
        })
    }

    fn get_delta_channel_history<'a>(
        &'a self,
        key: &ThreadKey,
        id: Option<&str>,
        channels: &[Arc<str>],
    ) -> BoxFuture<'a, Result<DeltaHistories, SaverError>> {
        let id: Option<Arc<str>> = id.map(Arc::from);
        let point = point(Operation::SaverRead, &key.thread, id.as_deref().unwrap_or_default());
        let asked = (key.clone(), id, channels.to_vec());
        self.store.call(point, Again::Yes, asked, |(key, id, channels), client| {
            Box::pin(history::walk(client, key, id.as_deref(), channels))
        })
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.prune(&[thread.into()], Keep::Nothing)
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        let (from, to): (Arc<str>, Arc<str>) = (from.into(), to.into());
        let point = point(Operation::SaverWrite, &to, "");
        // The second time, the first would be in its way.
        self.store.call(point, Again::No, (from, to), |(from, to), client| {
            Box::pin(threads::copy(client, from, to))
        })
    }

    fn prune(&self, names: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        let Some(first) = names.first() else { return Box::pin(ready(Ok(()))) };
        let point = point(Operation::SaverWrite, first, "");
        let names = names.to_vec();
        match keep {
            Keep::Latest => self.store.call(point, Again::Yes, names, |names, client| {
                Box::pin(async move {
                    for name in names {
                        threads::prune(client, name).await?;
                    }
                    Ok(())
                })
            }),
            Keep::Nothing => {
                let remembers = self.store.options.late_writes == LateWrites::Refused;
                self.store.call(
                    point,
                    Again::Yes,
                    (names, remembers),
                    |(names, remembers), client| {
                        Box::pin(async move {
                            for name in names {
                                threads::delete(client, name, *remembers).await?;
                            }
                            Ok(())
                        })
                    },
                )
            }
        }
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        let Some(first) = runs.first() else { return Box::pin(ready(Ok(()))) };
        let point = point(Operation::SaverWrite, first, "");
        self.store.call(point, Again::Yes, runs.to_vec(), |runs, client| {
            Box::pin(threads::delete_runs(client, runs))
        })
    }
}
