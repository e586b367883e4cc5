//! Being let in, being told to go, and what is left after a crash.

use durasim_models::postgres::{Cell, Postgres, PostgresSettings};

use crate::client::{Client, Login};
use crate::script::{Stage, run};
use crate::side::Side;

fn login(password: &str) -> Login {
    Login { user: "durasim".to_owned(), password: password.into(), database: "durasim".to_owned() }
}

#[tokio::test]
async fn too_many_and_unknown_clients_are_refused() {
    let settings = PostgresSettings {
        max_connections: 1,
        password: Some("secret".to_owned()),
        ..PostgresSettings::default()
    };
    let postgres = Postgres::new(settings);
    let connect = |password: &'static str| {
        let stream = Box::new(postgres.connect());
        async move { Client::connect(stream, &login(password)).await }
    };
    let wrong = connect("wrong").await.err().unwrap();
    assert_eq!(wrong, "FATAL 28P01: password authentication failed for user \"durasim\"");
    let first = connect("secret").await.unwrap();
    let second = connect("secret").await.err().unwrap();
    assert_eq!(second, "FATAL 53300: sorry, too many clients already");
    drop(first);
    tokio::task::yield_now().await;
    connect("secret").await.map(drop).unwrap();
}

#[tokio::test]
async fn a_shutdown_says_so_and_a_crash_does_not() {
    for (end, last_words) in [
        (
            Postgres::restart as fn(&Postgres),
            "FATAL 57P01: terminating connection due to administrator command",
        ),
        (Postgres::crash, ""),
    ] {
        let postgres = Postgres::new(PostgresSettings::default());
        let side = Side::Model(postgres.clone());
        let setup = [
            "a create table t (id int primary key, n int)",
            "a insert into t values (2, 2), (1, 1)",
        ];
        run(&side, &setup).await;
        let mut stage = Stage::new(&side);
        stage.step("a begin; update t set n = 5").await;
        stage.step("b update t set n = n + 1 where id = 1").await;
        end(&postgres);
        let answers = stage.end().await;
        let tail: Vec<&String> = answers.iter().filter(|line| line.starts_with("b: ")).collect();
        let mut expected = vec![format!("b: {last_words}"), "b: the connection ends".to_owned()];
        expected.retain(|line| line != "b: ");
        assert_eq!(tail, expected.iter().collect::<Vec<_>>());
        tokio::task::yield_now().await;
        assert_eq!(postgres.connections(), 0);
        let rows = postgres.rows("t");
        assert_eq!(rows[0]["n"], Cell::Int4(1));
        assert_eq!(rows[1]["id"], Cell::Int4(2));
        assert!(postgres.rows("nothing").is_empty());
        let again = run(&side, &["a select n from t order by id"]).await;
        assert_eq!(again[2..4], ["a: row '1'", "a: row '2'"]);
    }
}

#[tokio::test]
async fn what_the_model_does_not_know_is_refused_by_name() {
    let side = Side::model(PostgresSettings::default());
    let script = [
        "a create table t (id int primary key)",
        "a select rank() over (order by id) from t",
        "a select distinct on (id) id from t",
        "a with recursive x as (select 1) select * from x",
        "a select 1 intersect select 1",
        "a create view v as select 1",
        "a begin isolation level serializable",
        "a select 1.5 + 1.5",
        "a create table u (id int, at date)",
        "a select * from t for share",
        "a copy t from stdin",
        "a listen x",
    ];
    let answers = run(&side, &script).await;
    let refused = answers.iter().filter(|line| line.starts_with("a: ERROR 0A000")).count();
    assert_eq!(refused, script.len() - 1, "{answers:#?}");
}
