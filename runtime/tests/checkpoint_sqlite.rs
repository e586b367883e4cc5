//! What only a file can do: last, be shared, be locked, be damaged.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use checkpoint_support::{
    HeldCalls, StillClock, TestFile, block_on, checkpoint, doors_with_log, id, key, metadata,
    shared,
};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::Source;
use durasim_runtime::checkpoint::saver::{ListFilter, Put, PutWrites, Saver, SaverError};
use durasim_runtime::checkpoint::sqlite::{SqliteOptions, SqliteSaver, Synchronous};
use serde_json::json;

async fn open(file: &TestFile) -> Arc<SqliteSaver> {
    SqliteSaver::open(file.path(), &Doors::production()).await.expect("the file opens")
}

async fn put(saver: &SqliteSaver, thread: &str, n: u32) -> Result<(), SaverError> {
    let metadata = metadata(Source::Loop, n.into());
    saver.put(Put::new(&key(thread, ""), None, checkpoint(n), metadata)).await
}

async fn write(saver: &SqliteSaver, thread: &str, n: u32, task: &str) {
    let writes = vec![("x".into(), shared(1)), ("y".into(), shared(2))];
    saver
        .put_writes(PutWrites::new(&key(thread, ""), &id(n), task, "", writes))
        .await
        .expect("writes");
}

async fn count(saver: &SqliteSaver, thread: &str) -> usize {
    saver.list(thread, None, ListFilter::default()).await.expect("a listing").len()
}

#[test]
fn a_reopened_file_has_everything() {
    let file = TestFile::new("reopen");
    block_on(async {
        let saver = open(&file).await;
        put(&saver, "t", 0).await.unwrap();
        write(&saver, "t", 0, "a").await;
        drop(saver);
        let saver = open(&file).await;
        let tuple = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap();
        assert_eq!(tuple.checkpoint, checkpoint(0));
        assert_eq!(tuple.writes.len(), 2);
        put(&saver, "t", 1).await.unwrap();
        saver.close().await.unwrap();
        saver.close().await.unwrap();
        let closed = put(&saver, "t", 2).await.unwrap_err().to_string();
        assert!(closed.contains("closed") && closed.contains(file.path()), "{closed}");
        assert_eq!(count(&*open(&file).await, "t").await, 2);
    });
}

#[test]
fn tables_and_settings_are_langgraphs() {
    let file = TestFile::new("tables");
    block_on(async { drop(open(&file).await) });
    let connection = file.connect();
    let text = std::fs::read_to_string(checkpoint_support::vectors("ids_and_tables.json")).unwrap();
    let recorded: serde_json::Value = serde_json::from_str(&text).unwrap();
    let words = |sql: &str| sql.split_whitespace().collect::<Vec<_>>().join(" ");
    for ddl in recorded["sqlite_ddl"].as_array().unwrap() {
        let ddl = words(ddl.as_str().unwrap());
        let table = ddl.split(' ').nth(2).unwrap();
        let ours: String = connection
            .query_row("SELECT sql FROM sqlite_schema WHERE name = ?", [table], |row| row.get(0))
            .unwrap();
        assert_eq!(
            words(&ours).replace("( ", "(").replace(" )", ")"),
            ddl.replace("( ", "(").replace(" )", ")")
        );
    }
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn normal_synchronous_is_a_choice() {
    let file = TestFile::new("normal");
    let options = SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
    block_on(async {
        let opened = SqliteSaver::open_with(file.path(), &Doors::production(), options).await;
        let saver = opened.unwrap();
        put(&saver, "t", 0).await.unwrap();
        assert_eq!(count(&saver, "t").await, 1);
    });
    assert_eq!(SqliteOptions::default().synchronous, Synchronous::Full);
}

#[test]
fn two_savers_write_one_file_at_once() {
    let file = TestFile::new("two-savers");
    block_on(async {
        // Nobody queues fairly for a lock of SQLite's; on a slow disk that can take its time.
        let options = SqliteOptions { busy_limit: Duration::from_secs(60), ..Default::default() };
        let open = async || {
            let saver = SqliteSaver::open_with(file.path(), &Doors::production(), options).await;
            saver.expect("the file opens")
        };
        let savers = futures::future::join(open(), open()).await;
        let mut calls = Vec::new();
        for n in 0..60 {
            for (saver, thread) in [(&savers.0, "left"), (&savers.1, "right")] {
                calls.push(async move {
                    put(saver, thread, n).await.expect("a put");
                    write(saver, thread, n, "a").await;
                    count(saver, if thread == "left" { "right" } else { "left" }).await;
                });
            }
        }
        futures::future::join_all(calls).await;
        for (saver, thread) in [(&savers.0, "right"), (&savers.1, "left")] {
            let tuples = saver.list(thread, None, ListFilter::default()).await.unwrap();
            assert_eq!(tuples.len(), 60, "{thread}");
            assert!(tuples.iter().all(|tuple| tuple.writes.len() == 2));
        }
    });
}

#[test]
fn reading_goes_on_while_somebody_writes() {
    let file = TestFile::new("read-while-writing");
    block_on(async {
        let clock = Arc::new(StillClock::default());
        let doors = Doors { clock: clock.clone(), ..Doors::production() };
        let saver = SqliteSaver::open(file.path(), &doors).await.unwrap();
        put(&saver, "t", 0).await.unwrap();
        let other = file.connect();
        other.execute_batch("BEGIN IMMEDIATE; DELETE FROM checkpoints").unwrap();
        let tuple = saver.get_tuple(&key("t", ""), None).await.unwrap();
        assert_eq!(tuple.unwrap().checkpoint, checkpoint(0), "the state before that write");
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(count(&saver, "t").await, 0);
        assert_eq!(*clock.slept.lock().unwrap(), []);
    });
}

#[test]
fn a_locked_file_is_waited_for_at_the_clock() {
    let file = TestFile::new("locked");
    block_on(async {
        let other = Arc::new(Mutex::new(None));
        let unlock = other.clone();
        let clock = Arc::new(StillClock {
            at_sleep: Some(Box::new(move |sleeps| {
                if sleeps == 3 {
                    drop(unlock.lock().unwrap().take());
                }
            })),
            ..StillClock::default()
        });
        let doors = Doors { clock: clock.clone(), ..Doors::production() };
        let saver = SqliteSaver::open(file.path(), &doors).await.unwrap();
        let connection = file.connect();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        *other.lock().unwrap() = Some(connection);
        put(&saver, "t", 0).await.unwrap();
        assert_eq!(count(&saver, "t").await, 1);
        assert_eq!(*clock.slept.lock().unwrap(), [1, 2, 4].map(Duration::from_millis));
    });
}

#[test]
fn a_file_that_stays_locked_is_an_error_in_the_end() {
    let file = TestFile::new("stays-locked");
    block_on(async {
        let clock = Arc::new(StillClock::default());
        let doors = Doors { clock: clock.clone(), ..Doors::production() };
        let saver = SqliteSaver::open(file.path(), &doors).await.unwrap();
        let other = file.connect();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = put(&saver, "t", 0).await.unwrap_err().to_string();
        assert!(error.contains("still locked by another connection after 5s"), "{error}");
        assert!(error.contains(file.path()), "{error}");
        let slept = std::mem::take(&mut *clock.slept.lock().unwrap());
        assert_eq!(slept[..7], [1, 2, 4, 8, 16, 32, 50].map(Duration::from_millis));
        assert_eq!(slept.iter().sum::<Duration>(), Duration::from_secs(5));
        // Reads do not mind, and the saver is as good as before.
        assert_eq!(count(&saver, "t").await, 0);
        drop(other);
        put(&saver, "t", 0).await.unwrap();
        assert_eq!(*clock.slept.lock().unwrap(), []);
    });
}

/// Of two runtimes that share a saver, the one in which a write waits for a lock may end first.
#[test]
fn a_runtime_that_ends_while_it_waits_holds_nobody_up() {
    let file = TestFile::new("ended-runtime");
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let saver = second.block_on(open(&file));
    let other = file.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waits = std::pin::pin!(put(&saver, "t", 0));
    first.block_on(async {
        assert!(futures::poll!(&mut waits).is_pending());
        // It meets the lock, and pauses.
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    drop(first);
    other.execute_batch("ROLLBACK").unwrap();
    second.block_on(async {
        assert!(matches!(waits.await, Err(SaverError::Cancelled)));
        put(&saver, "t", 1).await.unwrap();
        assert_eq!(count(&saver, "t").await, 1);
    });
}

/// Polls once with a waker that does nothing.
fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_dropped_put_goes_on_to_its_end() {
    let file = TestFile::new("dropped");
    let held = Arc::new(HeldCalls::default());
    let (doors, log) = doors_with_log();
    let doors = Doors { executor: held.clone(), ..doors };
    let mut opening = Box::pin(SqliteSaver::open(file.path(), &doors));
    assert!(poll(&mut opening).is_pending());
    held.take()();
    let Poll::Ready(Ok(saver)) = poll(&mut opening) else { panic!("the saver is open") };

    let metadata = metadata(Source::Input, -1);
    let mut first = saver.put(Put::new(&key("t", ""), None, checkpoint(0), metadata));
    assert!(poll(&mut first).is_pending());
    assert_eq!(log.inside(), 1);
    drop(first);
    assert_eq!(log.inside(), 1, "the point is held for as long as the operation lasts");

    // The next caller comes behind the call that nobody awaits any more, in the same shift.
    let mut second = saver.get_tuple(&key("t", ""), None);
    assert!(poll(&mut second).is_pending());
    assert_eq!(log.inside(), 2);
    held.take()();
    assert_eq!(log.inside(), 0, "both points are left");
    let Poll::Ready(Ok(Some(tuple))) = poll(&mut second) else { panic!("it landed") };
    assert_eq!(tuple.checkpoint, checkpoint(0));

    // A shift that was thrown away before it began (its process died) tells those who wait.
    let mut third = saver.delete_thread("t");
    assert!(poll(&mut third).is_pending());
    drop(held.take());
    let Poll::Ready(Err(error)) = poll(&mut third) else { panic!("cancelled") };
    assert!(matches!(error, SaverError::Cancelled), "{error}");
    let mut fourth = saver.get_tuple(&key("t", ""), None);
    assert!(poll(&mut fourth).is_pending());
    held.take()();
    assert!(matches!(poll(&mut fourth), Poll::Ready(Ok(Some(_)))));
    drop(fourth);
    drop(third);
    assert_eq!(log.inside(), 0);
}

#[test]
fn puts_dropped_anywhere_leave_a_clean_connection() {
    let file = TestFile::new("dropped-anywhere");
    block_on(async {
        let saver = open(&file).await;
        for n in 0..40 {
            let put = put(&saver, "t", n);
            let give_up = async {
                for _ in 0..n % 8 {
                    tokio::task::yield_now().await;
                }
            };
            let put = pin!(put);
            futures::future::select(pin!(give_up), put).await;
            write(&saver, "t", n, "a").await;
        }
        put(&saver, "t", 99).await.unwrap();
        let tuples = saver.list("t", None, ListFilter::default()).await.unwrap();
        assert_eq!(tuples[0].checkpoint, checkpoint(99));
        for tuple in &tuples[1..] {
            assert_eq!(tuple.writes.len(), 2, "a checkpoint that landed is whole");
        }
    });
    let integrity: String =
        file.connect().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
}

/// Damages a fresh database by `sql` and gives the error of reading its first checkpoint.
fn damaged(test: &str, sql: &str) -> String {
    let file = TestFile::new(test);
    block_on(async {
        let saver = open(&file).await;
        put(&saver, "t", 0).await.unwrap();
        write(&saver, "t", 0, "a").await;
        put(&saver, "t", 1).await.unwrap();
        let changed = file.connect().execute(sql, []).unwrap();
        assert_eq!(changed, 1, "{sql}");
        let error = saver.get_tuple(&key("t", ""), Some(&id(0))).await.unwrap_err();
        assert!(matches!(error, SaverError::Corrupt { .. }), "{error}");
        let listing = saver.list("t", None, ListFilter::default()).await.unwrap_err();
        assert_eq!(listing.to_string(), error.to_string());
        let other = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap();
        assert_eq!(other.checkpoint, checkpoint(1), "the rest of the thread can be read");
        error.to_string()
    })
}

#[test]
fn damaged_rows_are_named() {
    let zero = id(0);
    let update = |set: &str| format!("UPDATE checkpoints SET {set} WHERE checkpoint_id = '{zero}'");
    let row = format!("thread \"t\", checkpoint {zero}");
    for (n, (set, expected)) in [
        (
            "checkpoint = substr(checkpoint, 1, 40)",
            "checkpoint: msgpack at byte 9: the bytes end too early",
        ),
        ("checkpoint = x'c1'", "checkpoint: msgpack at byte 0: the reserved byte 0xc1"),
        ("checkpoint = x''", "checkpoint: msgpack at byte 0: the bytes end too early"),
        ("checkpoint = NULL", "checkpoint: nothing is stored"),
        ("checkpoint = 7", "checkpoint: nothing is stored"),
        ("checkpoint = x'90'", "checkpoint: checkpoint: expected a map"),
        ("checkpoint = x'8261760aa2696405'", "checkpoint: msgpack at byte"),
        ("checkpoint = x'82a17604a26964a178'", "checkpoint: it says that it is checkpoint x"),
        (
            "checkpoint = x'83a17604a26964a178ae6368616e6e656c5f76616c75657382a16105a57374657073c1'",
            "checkpoint: channel \"steps\": msgpack at byte 34: the reserved byte 0xc1",
        ),
        ("type = 'pickle'", "checkpoint: type \"pickle\" is not one that can be read"),
        ("type = 'null'", "checkpoint: type \"null\" is not one that can be read"),
        ("type = NULL", "checkpoint: type \"\" is not one that can be read"),
        ("metadata = x'7b'", "metadata: metadata is not JSON"),
        ("metadata = NULL", "metadata: nothing is stored"),
        ("metadata = '{}'", "metadata: source: expected input, loop, update or fork"),
    ]
    .into_iter()
    .enumerate()
    {
        let error = damaged(&format!("damaged-{n}"), &update(set));
        assert!(error.starts_with(&format!("{row}, {expected}")), "{set}: {error}");
    }
    for (n, set) in
        ["value = x'92'", "type = 'json'", "value = NULL", "type = 'null'"].into_iter().enumerate()
    {
        let sql = format!("UPDATE writes SET {set} WHERE channel = 'y'");
        let error = damaged(&format!("damaged-write-{n}"), &sql);
        assert!(error.starts_with(&format!("{row}, channel \"y\" of task a: ")), "{set}: {error}");
    }
}

#[test]
fn metadata_may_be_text() {
    let file = TestFile::new("text-metadata");
    block_on(async {
        let saver = open(&file).await;
        put(&saver, "t", 0).await.unwrap();
        let sql = "UPDATE checkpoints SET metadata = '{\"source\": \"loop\", \"step\": 3}'";
        file.connect().execute(sql, []).unwrap();
        let tuple = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap();
        assert_eq!(tuple.metadata.step, 3);
    });
}

/// What `json.dumps({..., "score": nan})` of Python 3 writes.
#[test]
fn metadata_may_hold_numbers_that_json_has_no_words_for() {
    let file = TestFile::new("metadata_odd");
    block_on(async {
        let saver = open(&file).await;
        put(&saver, "t", 0).await.unwrap();
        put(&saver, "t", 1).await.unwrap();
        let told = r#"{"source": "loop", "step": 0, "parents": {}, "a": NaN, "run_id": "r1",
            "b": [-Infinity, "NaN \" Infinity", {"Infinity": Infinity}], "c": "\\"}"#;
        let sql = "UPDATE checkpoints SET metadata = CAST(? AS BLOB) WHERE checkpoint_id = ?";
        file.connect().execute(sql, [told, &*id(1)]).unwrap();
        let metadata = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap().metadata;
        assert_eq!(metadata.extra["a"], json!(null));
        assert_eq!(metadata.extra["b"], json!([null, "NaN \" Infinity", { "Infinity": null }]));
        assert_eq!(metadata.extra["c"], json!("\\"));
        saver.delete_for_runs(&["r1".into()]).await.unwrap();
        let left = saver.list("t", None, ListFilter::default()).await.unwrap();
        assert_eq!(
            left.iter().map(|tuple| tuple.checkpoint.id.to_string()).collect::<Vec<_>>(),
            [id(0)]
        );
    });
}

#[test]
fn a_value_that_cannot_be_stored_leaves_nothing() {
    let file = TestFile::new("unstorable");
    block_on(async {
        let saver = open(&file).await;
        let deep = (0..300).fold(1.into(), |v, _| durasim_runtime::value::Value::Array(vec![v]));
        let writes = vec![("x".into(), shared(1)), ("notes".into(), shared(deep))];
        let error = saver
            .put_writes(PutWrites::new(&key("t", ""), &id(0), "a", "", writes))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("\"notes\""), "{error}");
        put(&saver, "t", 0).await.unwrap();
        let tuple = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap();
        assert_eq!(tuple.writes, []);
    });
}
