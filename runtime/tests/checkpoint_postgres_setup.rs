//! Setting up a database: what comes out, who may be at it at the same time, and what is refused.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::time::Duration;

use checkpoint_support::{block_on, vectors};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::saver::LateWrites;
use futures::future::join_all;
use postgres_support::{Server, connect, rows};
use tokio_postgres::Client;

/// Everything but our own table, one a line.
async fn schema(client: &Client) -> String {
    let statement = std::fs::read_to_string(vectors("postgres_schema.sql")).expect("the file");
    rows(client, &statement).await.join("\n") + "\n"
}

/// What `setup()` of langgraph-checkpoint-postgres 3.1.1 left.
fn recorded() -> String {
    std::fs::read_to_string(vectors("postgres_schema.txt")).expect("the file")
}

fn in_database<F: Future<Output = ()>>(test: &str, check: impl FnOnce(String, Client) -> F) {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database(test);
        let client = connect(&url).await;
        check(url, client).await;
    });
}

async fn open(url: &str) -> Result<(), String> {
    PostgresSaver::open(url, &Doors::production()).await.map(drop).map_err(|e| e.to_string())
}

#[test]
fn the_tables_are_those_that_python_makes() {
    in_database("schema", |url, client| async move {
        for _ in 0..2 {
            open(&url).await.unwrap();
            assert_eq!(schema(&client).await, recorded());
        }
        let ours = "SELECT 1 FROM pg_tables WHERE tablename = 'durasim_deleted'";
        assert_eq!(rows(&client, ours).await, ["1"]);
    });
    in_database("schema-land", |url, client| async move {
        let options =
            PostgresOptions { late_writes: LateWrites::Land, ..PostgresOptions::default() };
        PostgresSaver::open_with(&url, &Doors::production(), options).await.unwrap();
        let all = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1";
        let tables =
            ["checkpoint_blobs", "checkpoint_migrations", "checkpoint_writes", "checkpoints"];
        assert_eq!(rows(&client, all).await, tables, "nothing of our own without need");
    });
}

#[test]
fn several_savers_may_set_up_at_once() {
    in_database("race", |url, client| async move {
        let results = join_all((0..4).map(|_| open(&url))).await;
        assert_eq!(results, [Ok(()), Ok(()), Ok(()), Ok(())]);
        assert_eq!(schema(&client).await, recorded());
    });
}

/// Python does not know our lock: it is caught here between a statement and its commit.
#[test]
fn python_may_set_up_at_once() {
    for made in [
        "CREATE TABLE IF NOT EXISTS checkpoint_migrations (v INTEGER PRIMARY KEY)",
        "CREATE TABLE IF NOT EXISTS checkpoints (thread_id TEXT NOT NULL, \
             checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, \
             parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB NOT NULL, \
             metadata JSONB NOT NULL DEFAULT '{}', \
             PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))",
    ] {
        in_database("python", |url, client| async move {
            client.batch_execute(&format!("BEGIN; {made}")).await.unwrap();
            let opened = tokio::spawn(async move { open(&url).await });
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert!(!opened.is_finished());
            client.batch_execute("COMMIT").await.unwrap();
            assert_eq!(opened.await.unwrap(), Ok(()));
            assert_eq!(schema(&client).await, recorded());
        });
    }
}

/// Interrupted after any migration; and in the middle of an index, which then is there and never
/// used.
#[test]
fn a_set_up_that_stopped_is_gone_on_with() {
    in_database("resume", |url, client| async move {
        open(&url).await.unwrap();
        for stopped in (0..9).rev() {
            let undo = format!("DELETE FROM checkpoint_migrations WHERE v > {stopped}");
            client.batch_execute(&undo).await.unwrap();
            // The first index is that of number 6.
            if stopped < 6 {
                let damage = "DROP INDEX checkpoint_blobs_thread_id_idx;
                    UPDATE pg_index SET indisvalid = false
                    WHERE indexrelid = 'checkpoints_thread_id_idx'::regclass";
                client.batch_execute(damage).await.unwrap();
                assert_ne!(schema(&client).await, recorded());
            }
            open(&url).await.unwrap();
            assert_eq!(schema(&client).await, recorded(), "after {stopped}");
        }
    });
}

/// Building an index waits for everybody who looks at an older moment of the table; the migrator's
/// own lock must not be among them, nor those who wait for it.
#[test]
fn a_reader_that_takes_its_time_is_waited_for() {
    in_database("slow-reader", |url, client| async move {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class LIMIT 1";
        client.batch_execute(begin).await.unwrap();
        let opened = tokio::spawn(async move { join_all((0..3).map(|_| open(&url))).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!opened.is_finished());
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(opened.await.unwrap(), [Ok(()), Ok(()), Ok(())]);
    });
}

#[test]
fn tables_of_another_application_are_left_alone() {
    in_database("other-application", |url, client| async move {
        for table in
            ["checkpoints (id serial, name text)", "checkpoints (thread_id text, checkpoint text)"]
        {
            client.batch_execute(&format!("CREATE TABLE {table}")).await.unwrap();
            let refused = open(&url).await.unwrap_err();
            assert!(refused.contains("another application"), "{refused}");
            let tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'";
            assert_eq!(rows(&client, tables).await, ["checkpoints"]);
            client.batch_execute("DROP TABLE checkpoints").await.unwrap();
        }
        client.batch_execute("CREATE SCHEMA own").await.unwrap();
        open(&format!("{url}?options=-csearch_path%3Down")).await.unwrap();
        let tables = "SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'checkpoint%'";
        assert_eq!(rows(&client, tables).await, ["own"]);
    });
}
