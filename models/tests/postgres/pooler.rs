//! The pooler, as PgBouncer documents transaction pooling:
//! <https://www.pgbouncer.org/features.html>.

use std::time::Duration;

use durasim_models::postgres::{Pooler, PoolerSettings, Postgres, PostgresSettings};

use crate::script::{Stage, run};
use crate::side::Side;

fn settings(pool_size: usize) -> PoolerSettings {
    PoolerSettings { pool_size, ..PoolerSettings::default() }
}

/// Runs a script against a pooler and shows what was answered, without the fields.
async fn play(settings: PoolerSettings, script: &[&str]) -> Vec<String> {
    let postgres = Postgres::new(PostgresSettings::default());
    let pooler = Pooler::over(&postgres, settings);
    let all = run(&Side::Pooler(pooler), script).await;
    all.into_iter().filter(|line| !line.starts_with("> ") && !line.contains(": fields")).collect()
}

#[tokio::test]
async fn a_connection_is_lent_for_a_transaction() {
    let answers = play(
        settings(1),
        &[
            "a create table t (id int primary key)",
            "a begin",
            "a insert into t values (1)",
            // There is one connection, and it is in a's transaction.
            "b select * from t",
            "a commit",
            "b begin",
            "b insert into t values (2)",
            "a select 1",
            "b.quit",
        ],
    );
    let answers = answers.await;
    assert_eq!(
        answers[6..],
        [
            "b waits",
            "a: done COMMIT",
            "a: ready I",
            "b: row '1'",
            "b: done SELECT 1",
            "b: ready I",
            "b: done BEGIN",
            "b: ready T",
            "b: done INSERT 0 1",
            "b: ready T",
            "a waits",
            // b left in the middle: its connection was closed, and a got a new one.
            "a: row '1'",
            "a: done SELECT 1",
            "a: ready I",
        ]
    );
}

#[tokio::test]
async fn what_a_session_keeps_stays_with_the_connection() {
    let script = [
        "a begin",
        "b select pg_advisory_lock(1)",
        "a commit",
        // a comes to another connection than b had, and cannot give back what is not its own.
        "c begin",
        "a select pg_advisory_unlock(1)",
        "b select pg_try_advisory_lock(1)",
        "c select pg_try_advisory_lock(1)",
        "c commit",
    ];
    let answers = play(settings(2), &script).await;
    // The connection that came back last is lent first: c has a's, which is free of the lock, so a
    // is lent the one that b locked on.
    let rows: Vec<&String> = answers.iter().filter(|line| line.contains(": row")).collect();
    assert_eq!(rows, ["b: row ''", "a: row 't'", "b: row 't'", "c: row 'f'"]);
}

const PREPARED: [&str; 9] = [
    "a.parse s select 1",
    "a.sync",
    "b begin",
    "a.bind _ s",
    "a.execute _ 0",
    "a.sync",
    "c.parse s select 2",
    "c.sync",
    "b commit",
];

#[tokio::test]
async fn named_statements_stay_behind_unless_the_pooler_keeps_track() {
    let answers = play(settings(2), &PREPARED).await;
    assert_eq!(
        answers,
        [
            "a: parsed",
            "a: ready I",
            "b: done BEGIN",
            "b: ready T",
            "a: ERROR 26000: prepared statement \"s\" does not exist",
            "a: ready I",
            "c: parsed",
            "c: ready I",
            "b: done COMMIT",
            "b: ready I",
        ]
    );
    let one = play(settings(1), &["a.parse s select 1", "a.sync", "b.parse s select 2", "b.sync"]);
    assert_eq!(
        one.await[2..],
        ["b: ERROR 42P05: prepared statement \"s\" already exists", "b: ready I",]
    );
    let tracking = PoolerSettings { max_prepared_statements: 10, ..settings(2) };
    let answers = play(tracking, &PREPARED).await;
    assert_eq!(answers[4..8], ["a: bound", "a: row '1'", "a: done SELECT 1", "a: ready I"]);
    assert_eq!(answers[8..10], ["c: parsed", "c: ready I"]);
}

#[tokio::test]
async fn a_tracked_statement_has_its_own_answers_on_any_connection() {
    let tracking = PoolerSettings { max_prepared_statements: 1, ..settings(1) };
    let answers = play(
        tracking,
        &[
            "a.parse s select 1",
            "a.parse r select 2",
            "a.bind _ s",
            "a.execute _ 0",
            "a.bind _ r",
            "a.execute _ 0",
            "a.describe S s",
            "a.close S s",
            "a.sync",
            "b.parse s select 2",
            "b.parse u selec",
            "b.bind _ s",
            "b.execute _ 0",
            "b.sync",
            "b.bind _ s",
            "b.execute _ 0",
            "b.sync",
            "a.bind _ s",
            "a.sync",
        ],
    );
    assert_eq!(
        answers.await,
        [
            "a: parsed",
            "a: parsed",
            "a: bound",
            "a: row '1'",
            "a: done SELECT 1",
            "a: bound",
            "a: row '2'",
            "a: done SELECT 1",
            "a: params []",
            "a: closed",
            "a: ready I",
            "b: parsed",
            "b: ERROR 42601",
            "b: ready I",
            "b: bound",
            "b: row '2'",
            "b: done SELECT 1",
            "b: ready I",
            "a: ERROR 26000: prepared statement \"s\" does not exist",
            "a: ready I",
        ]
    );
}

#[tokio::test]
async fn who_waits_too_long_is_sent_away_and_a_cancel_finds_its_connection() {
    let impatient = PoolerSettings { query_wait_timeout_ms: 300, ..settings(1) };
    let answers =
        play(impatient, &["a begin", "b select 1", "sleep 300", "a rollback", "b select 2"]);
    let answers = answers.await;
    assert_eq!(
        answers[2..5],
        ["b waits", "b: FATAL 08P01: query_wait_timeout", "b: the connection ends",]
    );
    let answers = play(settings(1), &["a select pg_sleep(60)", "a.cancel"]).await;
    let cancelled = "a: ERROR 57014: canceling statement due to user request";
    assert!(answers.contains(&cancelled.to_owned()), "{answers:?}");
}

#[tokio::test]
async fn connections_that_nobody_uses_are_closed_and_dead_ones_replaced() {
    let postgres = Postgres::new(PostgresSettings::default());
    let brief = PoolerSettings { server_idle_timeout_ms: 200, ..settings(3) };
    let pooler = Pooler::over(&postgres, brief);
    let mut stage = Stage::new(&Side::Pooler(pooler.clone()));
    stage.step("a select pg_advisory_lock(1)").await;
    assert_eq!((pooler.servers(), postgres.connections()), (1, 1));
    stage.step("sleep 400").await;
    assert_eq!((pooler.servers(), postgres.connections()), (0, 0));
    stage.step("a select pg_try_advisory_lock(1)").await;
    postgres.restart();
    tokio::time::sleep(Duration::from_millis(50)).await;
    stage.step("a select pg_try_advisory_lock(1)").await;
    let answers = stage.end().await;
    let rows: Vec<&String> = answers.iter().filter(|line| line.contains(": row")).collect();
    assert_eq!(rows, ["a: row ''", "a: row 't'", "a: row 't'"]);
}
