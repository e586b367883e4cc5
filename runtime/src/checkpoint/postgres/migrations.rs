//! The tables: made by the numbered migrations of langgraph-checkpoint-postgres 3.1.1, one migrator at
//! a time, from wherever an earlier one stopped.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use super::connection::{Again, Store, query};
use super::errors::Failure;
use super::lock;
use crate::checkpoint::saver::LateWrites;

/// By number. Each may be repeated; those that build an index stand outside of transactions.
const MIGRATIONS: [Migration; 10] = [
    Migration::Sql("CREATE TABLE IF NOT EXISTS checkpoint_migrations (v INTEGER PRIMARY KEY)"),
    Migration::Sql(
        "CREATE TABLE IF NOT EXISTS checkpoints (
            thread_id TEXT NOT NULL,
            checkpoint_ns TEXT NOT NULL DEFAULT '',
            checkpoint_id TEXT NOT NULL,
            parent_checkpoint_id TEXT,
            type TEXT,
            checkpoint JSONB NOT NULL,
            metadata JSONB NOT NULL DEFAULT '{}',
            PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
        )",
    ),
    Migration::Sql(
        "CREATE TABLE IF NOT EXISTS checkpoint_blobs (
            thread_id TEXT NOT NULL,
            checkpoint_ns TEXT NOT NULL DEFAULT '',
            channel TEXT NOT NULL,
            version TEXT NOT NULL,
            type TEXT NOT NULL,
            blob BYTEA,
            PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
        )",
    ),
    Migration::Sql(
        "CREATE TABLE IF NOT EXISTS checkpoint_writes (
            thread_id TEXT NOT NULL,
            checkpoint_ns TEXT NOT NULL DEFAULT '',
            checkpoint_id TEXT NOT NULL,
            task_id TEXT NOT NULL,
            idx INTEGER NOT NULL,
            channel TEXT NOT NULL,
            type TEXT,
            blob BYTEA NOT NULL,
            PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
        )",
    ),
    Migration::Sql("ALTER TABLE checkpoint_blobs ALTER COLUMN blob DROP NOT NULL"),
    // Python has one here that does nothing.
    Migration::Nothing,
    Migration::Index { name: "checkpoints_thread_id_idx", table: "checkpoints" },
    Migration::Index { name: "checkpoint_blobs_thread_id_idx", table: "checkpoint_blobs" },
    Migration::Index { name: "checkpoint_writes_thread_id_idx", table: "checkpoint_writes" },
    Migration::Sql(
        "ALTER TABLE checkpoint_writes ADD COLUMN IF NOT EXISTS task_path TEXT NOT NULL DEFAULT ''",
    ),
];

const NEWEST: i32 = MIGRATIONS.len() as i32 - 1;

/// Our own table, outside the numbering. Python does not look at it.
const DELETIONS: &str = "
CREATE TABLE IF NOT EXISTS durasim_deleted (
    thread_id TEXT PRIMARY KEY,
    times INTEGER NOT NULL
)";

enum Migration {
    Sql(&'static str),
    Nothing,
    /// On thread_id, built while others write.
    Index {
        name: &'static str,
        table: &'static str,
    },
}

/// Makes what is missing, again and again while the server is away or somebody else is at it.
pub(super) async fn migrate(store: &Store) -> Result<(), Failure> {
    let mut patience = store.patience();
    loop {
        let Err(failure) = make(store).await else { return Ok(()) };
        let may_pass = failure.may_pass(Again::Yes) || is_overtaken(&failure);
        if !may_pass || !patience.wait().await {
            return Err(failure);
        }
    }
}

/// Python, which does not know our lock, made the same thing at the same moment: `IF NOT EXISTS` does
/// not see what is not committed yet.
fn is_overtaken(failure: &Failure) -> bool {
    let Failure::Sql(error) = failure else { return false };
    [
        SqlState::UNIQUE_VIOLATION,
        SqlState::DUPLICATE_TABLE,
        SqlState::DUPLICATE_OBJECT,
        SqlState::DUPLICATE_COLUMN,
    ]
    .iter()
    .any(|code| error.code() == Some(code))
}

/// Makes what is missing. May be repeated.
async fn make(store: &Store) -> Result<(), Failure> {
    let lent = store.connect().await?;
    let made = make_over(store, lent.link()).await;
    lent.end(&made);
    made
}

async fn make_over(store: &Store, client: &Client) -> Result<(), Failure> {
    store.in_time(check_shape(client)).await?;
    if store.in_time(is_done(client, store.options.late_writes)).await? {
        return Ok(());
    }
    let lent = store.connect().await?;
    let made = make_alone(store, client, lent.link()).await;
    lent.end(&made);
    made
}

/// Makes what is missing under the lock, which the migrator holds, or waits until somebody else has.
async fn make_alone(store: &Store, client: &Client, migrator: &Client) -> Result<(), Failure> {
    let late_writes = store.options.late_writes;
    // Whoever is not first does not queue for the lock: a statement that waits has a moment that it
    // sees, and building an index waits until everybody's moment is past.
    while !store.in_time(try_lock(migrator)).await? {
        store.doors.clock.sleep(super::connection::MIGRATOR_PAUSE).await;
        if store.in_time(is_done(client, late_writes)).await? {
            return Ok(());
        }
    }
    let newest = store.in_time(version(client)).await?;
    for (number, migration) in (0..).zip(&MIGRATIONS).skip((newest + 1) as usize) {
        migration.apply(store, client, number).await?;
    }
    if late_writes == LateWrites::Refused {
        store.in_time(run(client, DELETIONS)).await?;
    }
    store.in_time(check_shape(client)).await?;
    store.in_time(run(migrator, "COMMIT")).await
}

async fn run(client: &Client, statements: &str) -> Result<(), Failure> {
    Ok(client.batch_execute(statements).await?)
}

impl Migration {
    async fn apply(&self, store: &Store, client: &Client, number: i32) -> Result<(), Failure> {
        // Python may be at it as well; it does not know our lock.
        let done = format!(
            "INSERT INTO checkpoint_migrations (v) VALUES ({number}) ON CONFLICT (v) DO NOTHING"
        );
        match self {
            Migration::Nothing => store.in_time(run(client, &done)).await,
            // Several statements in one request are one transaction.
            Migration::Sql(sql) => store.in_time(run(client, &format!("{sql}; {done}"))).await,
            Migration::Index { name, table } => {
                // As long as it takes: that depends on the rows, and on others who read them.
                if is_half_built(client, name).await? {
                    run(client, &format!("DROP INDEX CONCURRENTLY IF EXISTS {name}")).await?;
                }
                let build = format!(
                    "CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {table} (thread_id)"
                );
                run(client, &build).await?;
                store.in_time(run(client, &done)).await
            }
        }
    }
}

/// One who was interrupted leaves an index behind that is kept up and never used.
async fn is_half_built(client: &Client, index: &&'static str) -> Result<bool, Failure> {
    let statement = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid";
    Ok(!query(client, statement, &[(index, Type::TEXT)]).await?.is_empty())
}

/// The lock that migrators hold, on a connection of its own, for as long as its transaction is open.
/// It is not the session's, which behind a pooler would be anybody's. The transaction must not keep
/// a moment that it sees, or building an index would wait for it; so its statements are simple ones,
/// of which nothing is left when they are answered.
async fn try_lock(migrator: &Client) -> Result<bool, Failure> {
    let key = lock::key("migration", "");
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 0; \
         SELECT pg_try_advisory_xact_lock({key})"
    );
    let answers = migrator.simple_query(&begin).await?;
    let is_ours = answers.iter().any(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
        _ => false,
    });
    if !is_ours {
        migrator.batch_execute("ROLLBACK").await?;
    }
    Ok(is_ours)
}

async fn is_done(client: &Client, late_writes: LateWrites) -> Result<bool, Failure> {
    Ok(version(client).await? >= NEWEST
        && (late_writes == LateWrites::Land
            || exists(client, "SELECT 1 FROM durasim_deleted LIMIT 0").await?))
}

/// The number of the last migration that was done; -1 for an empty database.
async fn version(client: &Client) -> Result<i32, Failure> {
    let newest = "SELECT coalesce(max(v), -1) FROM checkpoint_migrations";
    match client.query_typed(newest, &[]).await {
        Ok(rows) => Ok(rows.first().map_or(-1, |row| row.get(0))),
        Err(error) if is_missing(&error) => Ok(-1),
        Err(error) => Err(error.into()),
    }
}

/// Fails if there are tables of these names that others made for something else.
async fn check_shape(client: &Client) -> Result<(), Failure> {
    for select in [
        "SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint -> 'v', \
         metadata -> 'step' FROM checkpoints LIMIT 0",
        "SELECT thread_id, checkpoint_ns, channel, version, type, blob FROM checkpoint_blobs LIMIT 0",
        "SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob \
         FROM checkpoint_writes LIMIT 0",
    ] {
        exists(client, select).await?;
    }
    Ok(())
}

async fn exists(client: &Client, select: &str) -> Result<bool, Failure> {
    match client.query_typed(select, &[]).await {
        Ok(_) => Ok(true),
        Err(error) if is_missing(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_missing(error: &Error) -> bool {
    error.code() == Some(&SqlState::UNDEFINED_TABLE)
}
