//! Cases on a real PostgreSQL server, while the time of the cases stands still.
//!
//! Paused time runs on whenever nothing else can, and waiting for a socket counts as nothing. So the
//! saver lives in a runtime of its own, whose time is real, and its calls go through the lane as
//! blocking ones: while one lasts, everything else waits, as it does for a SQLite file.

use std::sync::Arc;

use durasim_runtime::checkpoint::history::DeltaHistories;
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_runtime::checkpoint::saver::{
    Keep, ListFilter, Put, PutWrites, SaverError, SaverResult,
};
use durasim_runtime::checkpoint::{CheckpointTuple, ThreadKey};
use durasim_runtime::doors::Executor;
use durasim_runtime::{Doors, Saver};
use futures::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio_postgres::{Client, Config, NoTls};

use super::store::{Rows, Store, StoreFactory, WriteKey};

const TABLES: &str = "checkpoints, checkpoint_blobs, checkpoint_writes, durasim_deleted";

/// Keeps each case in a schema of its own in the database with this URL, one case after the other.
/// The schema goes with the factory. To be called, and dropped, outside of any runtime.
pub fn postgres_store(url: &str) -> Result<Box<StoreFactory>, String> {
    let elsewhere = Arc::new(Elsewhere::open(url)?);
    Ok(Box::new(move |_, doors| {
        let (elsewhere, executor) = (elsewhere.clone(), doors.executor.clone());
        Box::pin(async move {
            let lane = Lane { elsewhere, executor, turn: Arc::default() };
            let clear = format!("TRUNCATE {TABLES}");
            let cleared = lane.call(move |at| at.runtime.block_on(at.client.batch_execute(&clear)));
            cleared.await?.map_err(|error| SaverError::Store(error.to_string()))?;
            let saver: Arc<dyn Saver> = Arc::new(LaneSaver(lane.clone()));
            Ok(Store { saver, rows: Rows::Postgres(lane) })
        })
    }))
}

/// A runtime of its own, and in it what talks to the server.
struct Elsewhere {
    runtime: Runtime,
    saver: Arc<PostgresSaver>,
    client: Client,
    schema: String,
}

impl Elsewhere {
    fn open(url: &str) -> Result<Elsewhere, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let schema = format!("durasim_conformance_{}", std::process::id());
        let and = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{and}options=-csearch_path%3D{schema}");
        let (client, saver) = runtime.block_on(async {
            let client = connect(&url).await?;
            let make = format!("CREATE SCHEMA {schema}");
            client.batch_execute(&make).await.map_err(|error| format!("{error:?}"))?;
            let saver = PostgresSaver::open(&url, &Doors::production()).await;
            Ok::<_, String>((client, saver.map_err(|error| error.to_string())?))
        })?;
        Ok(Elsewhere { runtime, saver, client, schema })
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let gone = format!("DROP SCHEMA {} CASCADE", self.schema);
        // It has a name that nobody else uses; if the server is gone, so is the matter.
        let _ = self.runtime.block_on(self.client.batch_execute(&gone));
    }
}

async fn connect(url: &str) -> Result<Client, String> {
    let config: Config = url.parse().map_err(|error| format!("{error:?}"))?;
    let host = match config.get_hosts().first() {
        Some(tokio_postgres::config::Host::Tcp(host)) => host.clone(),
        _ => return Err("the URL names no host".to_owned()),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let stream = tokio::net::TcpStream::connect((host, port)).await;
    let stream = stream.map_err(|error| format!("cannot reach postgres: {error}"))?;
    let connected = config.connect_raw(stream, NoTls).await;
    let (client, connection) = connected.map_err(|error| format!("{error:?}"))?;
    tokio::spawn(connection);
    Ok(client)
}

/// The way there: one call after the other, each a blocking one. One that is given up while it waits
/// for its turn is never made, as with the lock that every call of LangGraph's AsyncPostgresSaver
/// takes.
#[derive(Clone)]
pub struct Lane {
    elsewhere: Arc<Elsewhere>,
    executor: Arc<dyn Executor>,
    turn: Arc<Mutex<()>>,
}

impl Lane {
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Elsewhere) -> T + Send + 'static,
    ) -> SaverResult<T> {
        let Lane { elsewhere, executor, turn } = self.clone();
        Box::pin(async move {
            let turn = turn.lock_owned().await;
            // The lane runs calls where they are polled; a runtime is not entered from another one.
            let work = move || {
                let _turn = turn;
                std::thread::scope(|scope| scope.spawn(|| work(&elsewhere)).join())
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            executor.blocking("saver", work).await.map_err(|_| SaverError::Cancelled)
        })
    }

    /// The keys of all pending writes of a thread.
    pub(super) async fn write_keys(&self, thread: &str) -> Result<Vec<WriteKey>, String> {
        let thread = thread.to_owned();
        let rows = self.call(move |at| {
            at.runtime.block_on(at.client.query_typed(
                "SELECT checkpoint_ns, checkpoint_id, task_id, idx, channel FROM checkpoint_writes \
                 WHERE thread_id = $1 ORDER BY checkpoint_ns, checkpoint_id, task_id, idx",
                &[(&thread, tokio_postgres::types::Type::TEXT)],
            ))
        });
        let rows = rows.await.map_err(|error| error.to_string())?;
        let rows = rows.map_err(|error| format!("{error:?}"))?;
        let key = |row: &tokio_postgres::Row| WriteKey {
            namespace: row.get(0),
            checkpoint: row.get(1),
            task: row.get(2),
            index: row.get::<_, i32>(3).into(),
            channel: row.get(4),
        };
        Ok(rows.iter().map(key).collect())
    }
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lane").field(&self.elsewhere.schema).finish()
    }
}

/// The saver at the other end of the lane.
struct LaneSaver(Lane);

impl LaneSaver {
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&PostgresSaver) -> SaverResult<T> + Send + 'static,
    ) -> SaverResult<T> {
        let done = self.0.call(|at| at.runtime.block_on(call(&at.saver)));
        Box::pin(async move { done.await? })
    }
}

impl Saver for LaneSaver {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        let (key, id) = (key.clone(), id.map(str::to_owned));
        self.call(move |saver| saver.get_tuple(&key, id.as_deref()))
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        let (thread, namespace) = (thread.to_owned(), namespace.map(str::to_owned));
        self.call(move |saver| saver.list(&thread, namespace.as_deref(), filter))
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        self.call(move |saver| saver.put(put))
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        self.call(move |saver| saver.put_writes(put))
    }

    fn get_delta_channel_history<'a>(
        &'a self,
        key: &ThreadKey,
        id: Option<&str>,
        channels: &[Arc<str>],
    ) -> BoxFuture<'a, Result<DeltaHistories, SaverError>> {
        let (key, id, channels) = (key.clone(), id.map(str::to_owned), channels.to_vec());
        let history = self.0.call(move |at| {
            let history = at.saver.get_delta_channel_history(&key, id.as_deref(), &channels);
            at.runtime.block_on(history)
        });
        Box::pin(async move { history.await? })
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        let thread = thread.to_owned();
        self.call(move |saver| saver.delete_thread(&thread))
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.call(move |saver| saver.copy_thread(&from, &to))
    }

    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        let threads = threads.to_vec();
        self.call(move |saver| saver.prune(&threads, keep))
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        let runs = runs.to_vec();
        self.call(move |saver| saver.delete_for_runs(&runs))
    }
}
