//! The PostgreSQL server as a process of the world: clients that die, a server that comes back.
#![cfg(madsim)]

use std::future::Future;
use std::time::Duration;

use durasim_models::postgres::{Cell, Pooler, PoolerSettings, Postgres, PostgresSettings};
use durasim_sim::{Finished, LinkSpec, Process, RunOptions, World, run};
use tokio_postgres::{Client, Config, NoTls};

const MS: Duration = Duration::from_millis(1);

#[derive(Clone)]
struct Stage {
    world: World,
    postgres: Postgres,
    server: Process,
}

/// Plays a story, with a millisecond for each message.
fn play<F>(
    seed: u64,
    settings: PostgresSettings,
    story: impl FnOnce(Stage) -> F + Send + 'static,
) -> Finished<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let finished =
        run(seed, RunOptions { record_tape: true, ..RunOptions::default() }, move |world| {
            Box::pin(async move {
                world.net().set_default_link(LinkSpec::fixed(MS));
                let postgres = Postgres::new(settings);
                let server = postgres.serve(&world);
                world.sleep(MS).await;
                let stage = Stage { world: world.clone(), postgres, server };
                let client = stage.client("setup").await;
                client
                    .batch_execute(
                        "CREATE TABLE t (id int primary key, n int); INSERT INTO t VALUES (1, 1)",
                    )
                    .await
                    .unwrap();
                story(stage).await;
            })
        });
    assert_eq!(finished.value, Ok(()));
    assert_eq!(finished.leaked_tasks, 0);
    finished
}

impl Stage {
    async fn client(&self, name: &str) -> Client {
        self.client_of(name, Postgres::NAME, Postgres::PORT).await
    }

    /// A client on a host of its own, which dies with it.
    async fn client_of(&self, name: &str, server: &str, port: u16) -> Client {
        let process = match self.world.find(name) {
            Some(process) => process,
            None => self.world.process(name, name, |_| Box::pin(async {})),
        };
        let stream = process.connect(server, port).await.unwrap();
        let config = Config::new().user("test").dbname("test").clone();
        let (client, connection) = config.connect_raw(stream, NoTls).await.unwrap();
        drop(process.spawn("connection", async move {
            let _ = connection.await;
        }));
        client
    }

    fn stored(&self) -> Vec<(Cell, Cell)> {
        let rows = self.postgres.rows("t");
        rows.iter().map(|row| (row["id"].clone(), row["n"].clone())).collect()
    }
}

fn row(id: i32, n: i32) -> (Cell, Cell) {
    (Cell::Int4(id), Cell::Int4(n))
}

#[test]
fn a_client_that_is_killed_in_a_transaction_leaves_nothing_and_lets_go() {
    play(1, PostgresSettings::default(), |stage| async move {
        let victim = stage.client("victim").await;
        victim.batch_execute("BEGIN").await.unwrap();
        victim.execute_typed("UPDATE t SET n = 100 WHERE id = 1", &[]).await.unwrap();
        let other = stage.client("other").await;
        let waiting = stage.world.spawn("update", async move {
            other.execute_typed("UPDATE t SET n = n + 1 WHERE id = 1", &[]).await
        });
        stage.world.sleep(50 * MS).await;
        assert!(!waiting.is_finished(), "the row is locked");
        assert_eq!(stage.stored(), [row(1, 1)]);
        stage.world.find("victim").unwrap().kill();
        assert_eq!(waiting.await.unwrap().unwrap(), 1);
        assert_eq!(stage.stored(), [row(1, 2)]);
    });
}

#[test]
fn what_was_committed_survives_the_servers_death() {
    play(2, PostgresSettings::default(), |stage| async move {
        let first = stage.client("first").await;
        first.batch_execute("INSERT INTO t VALUES (2, 2)").await.unwrap();
        first.batch_execute("BEGIN; INSERT INTO t VALUES (3, 3)").await.unwrap();
        first.batch_execute("SELECT pg_advisory_lock(7)").await.unwrap();
        stage.server.kill();
        assert!(first.batch_execute("SELECT 1").await.is_err());
        stage.server.restart();
        stage.world.sleep(MS).await;
        let second = stage.client("second").await;
        let free = second.query_typed("SELECT pg_try_advisory_lock(7)", &[]).await.unwrap();
        assert!(free[0].get::<_, bool>(0));
        assert_eq!(stage.stored(), [row(1, 1), row(2, 2)]);
        second.batch_execute("INSERT INTO t VALUES (3, 30)").await.unwrap();
        assert_eq!(stage.postgres.connections(), 1);
    });
}

#[test]
fn a_crash_loses_the_last_commits_that_nobody_waited_for() {
    let settings = PostgresSettings { synchronous_commit: false, ..PostgresSettings::default() };
    play(3, settings, |stage| async move {
        let client = stage.client("client").await;
        stage.world.sleep(1_000 * MS).await;
        client.batch_execute("UPDATE t SET n = 2").await.unwrap();
        stage.world.sleep(300 * MS).await;
        client.batch_execute("UPDATE t SET n = 3").await.unwrap();
        client.batch_execute("INSERT INTO t VALUES (2, 2)").await.unwrap();
        assert_eq!(stage.stored(), [row(1, 3), row(2, 2)]);
        stage.server.restart();
        stage.world.sleep(MS).await;
        assert_eq!(stage.stored(), [row(1, 2)]);
        let client = stage.client("client").await;
        client.batch_execute("UPDATE t SET n = 4").await.unwrap();
        client
            .batch_execute("SET synchronous_commit = on; INSERT INTO t VALUES (5, 5)")
            .await
            .unwrap();
        stage.server.restart();
        stage.world.sleep(MS).await;
        assert_eq!(stage.stored(), [row(1, 4), row(5, 5)]);
    });
}

#[test]
fn a_restart_tells_everybody() {
    play(4, PostgresSettings::default(), |stage| async move {
        let client = stage.client("client").await;
        client.batch_execute("BEGIN; UPDATE t SET n = 5").await.unwrap();
        stage.postgres.restart();
        stage.world.sleep(10 * MS).await;
        assert!(client.is_closed());
        assert_eq!(stage.stored(), [row(1, 1)]);
        assert_eq!(stage.postgres.connections(), 0);
    });
}

#[test]
fn latencies_are_the_seeds() {
    let settings = PostgresSettings {
        statement_us: [100, 5_000],
        commit_us: [1_000, 20_000],
        ..PostgresSettings::default()
    };
    let story = |stage: Stage| async move {
        for name in ["a", "b", "c"] {
            let client = stage.client(name).await;
            drop(stage.world.spawn(name, async move {
                for _ in 0..10 {
                    client.batch_execute("UPDATE t SET n = n + 1 WHERE id = 1").await.unwrap();
                }
            }));
        }
        stage.world.sleep(2_000 * MS).await;
        assert_eq!(stage.stored(), [row(1, 31)]);
    };
    let played = [7, 7, 8].map(|seed| play(seed, settings.clone(), story));
    let [first, again, other] = played.map(|finished| (finished.hash, finished.tape));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

#[test]
fn a_session_lock_through_a_pooler_stays_behind() {
    play(9, PostgresSettings::default(), |stage| async move {
        let settings = PoolerSettings {
            pool_size: 2,
            server_idle_timeout_ms: 5_000,
            ..PoolerSettings::default()
        };
        drop(Pooler::serve(&stage.world, settings));
        stage.world.sleep(MS).await;
        let holder = stage.client_of("holder", Pooler::NAME, Pooler::PORT).await;
        let other = stage.client_of("other", Pooler::NAME, Pooler::PORT).await;
        // The holder locks on one connection while the other's transaction is on the first.
        other.batch_execute("BEGIN").await.unwrap();
        holder.batch_execute("SELECT pg_advisory_lock(1)").await.unwrap();
        other.batch_execute("COMMIT").await.unwrap();
        // Now it is lent the one that came back last, and its unlock does nothing.
        let unlocked = holder.query_typed("SELECT pg_advisory_unlock(1)", &[]).await.unwrap();
        assert!(!unlocked[0].get::<_, bool>(0));
        stage.world.find("holder").unwrap().kill();
        let direct = stage.client("direct").await;
        let try_lock = "SELECT pg_try_advisory_lock(1)";
        let taken = |rows: Vec<tokio_postgres::Row>| rows[0].get::<_, bool>(0);
        assert!(!taken(direct.query_typed(try_lock, &[]).await.unwrap()));
        // Until the pooler closes a connection that nobody uses.
        stage.world.sleep(6_000 * MS).await;
        assert!(taken(direct.query_typed(try_lock, &[]).await.unwrap()));
    });
}
