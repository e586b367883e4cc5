//! What is stored on PostgreSQL, and what of it comes back: beside the rules that all savers share
//! (see `checkpoint_savers.rs`), those of langgraph-checkpoint-postgres 3.1.1.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::sync::Arc;

use checkpoint_support::{block_on, checkpoint, id, key, metadata, shared, short};
use durasim_runtime::Doors;
use durasim_runtime::checkpoint::codec::{encode, pack};
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_runtime::checkpoint::saver::{Put, PutWrites, Saver, SaverError};
use durasim_runtime::checkpoint::{Checkpoint, Source};
use durasim_runtime::value::{self, Shared, Value};
use postgres_support::{Server, connect, rows};
use tokio_postgres::Client;

/// Runs `check` with a saver on a fresh database and somebody else's connection to it.
fn with_saver<F: Future<Output = ()>>(
    test: &str,
    check: impl FnOnce(Arc<PostgresSaver>, Client) -> F,
) {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database(test);
        let saver = PostgresSaver::open(&url, &Doors::production()).await.expect("it opens");
        check(saver, connect(&url).await).await;
    });
}

/// A checkpoint of one channel, `x`.
fn holding(n: u32, value: impl Into<Value>) -> Checkpoint {
    let version: Arc<str> = format!("{:032}.0.5", n + 1).into();
    Checkpoint {
        channel_values: [("x".into(), shared(value))].into_iter().collect(),
        channel_versions: [("x".into(), version)].into_iter().collect(),
        versions_seen: Default::default(),
        updated_channels: None,
        ..checkpoint(n)
    }
}

async fn put(saver: &dyn Saver, checkpoint: Checkpoint) -> Result<(), SaverError> {
    saver.put(Put::new(&key("t", ""), None, checkpoint, metadata(Source::Loop, 1))).await
}

async fn x(saver: &dyn Saver) -> Result<Value, SaverError> {
    let tuple = saver.get_tuple(&key("t", ""), None).await?.expect("a checkpoint");
    Ok((*tuple.checkpoint.channel_values["x"]).clone())
}

#[test]
fn scalars_stand_in_the_document_and_everything_else_beside_it() {
    with_saver("places", |saver, client| async move {
        let list = Value::Array(vec![1.into(), "a\0b".into(), f64::INFINITY.into()]);
        let snapshot = Value::Ext(7, vec![0x90]);
        for (n, (value, document, blob)) in (0..).zip([
            (Value::Nil, "null", "-"),
            (true.into(), "true", "-"),
            (7.into(), "7", "-"),
            (u64::MAX.into(), "18446744073709551615", "-"),
            (i64::MIN.into(), "-9223372036854775808", "-"),
            (1.0.into(), "1.0", "-"),
            (5e-324.into(), &format!("{:.324}", 5e-324), "-"),
            ("é\u{1}\"".into(), r#""é\u0001\"""#, "-"),
            (list, "-", "msgpack 9301a3610062cb7ff0000000000000"),
            (value::map([("k", Value::Binary(vec![0]))]), "-", "msgpack 81a16bc40100"),
            (Value::Binary(b"raw".to_vec()), "-", "bytes 726177"),
            // A delta channel's; in the document is only that it is there.
            (snapshot, "true", "msgpack d40790"),
        ]) {
            put(&*saver, holding(n, value.clone())).await.unwrap();
            let at = format!("WHERE checkpoint_id = '{}'", id(n));
            let inline =
                format!("SELECT checkpoint -> 'channel_values' -> 'x' FROM checkpoints {at}");
            assert_eq!(rows(&client, &inline).await, [document], "{value}");
            let version = format!("{:032}.0.5", n + 1);
            let beside = format!(
                "SELECT type || ' ' || encode(blob, 'hex') FROM checkpoint_blobs \
                 WHERE version = '{version}' UNION ALL SELECT '-' LIMIT 1"
            );
            assert_eq!(rows(&client, &beside).await, [blob], "{value}");
            assert_eq!(x(&*saver).await.unwrap(), value);
        }
    });
}

/// A float stays a float, also where Python's would come back as an integer.
#[test]
fn numbers_keep_their_kind() {
    with_saver("numbers", |saver, _| async move {
        let floats = [1e15, 1e16, 1e22, 1e23, 0.1, -2.5, f64::MAX, f64::MIN_POSITIVE, 5e-324];
        for (n, float) in (0..).zip(floats) {
            put(&*saver, holding(n, float)).await.unwrap();
            assert_eq!(x(&*saver).await.unwrap(), Value::F64(float));
        }
    });
}

/// Left: what Python's saver left in the document for `1e16`, `1e22`, `-0.0`, `2**64` and others; it
/// reads integers there, and so do we. What is stored once more is the same.
#[test]
fn numbers_that_python_wrote() {
    with_saver("python-numbers", |saver, client| async move {
        let at = |n| format!("WHERE checkpoint_id = '{}'", id(n));
        for (n, (stored, read)) in (0..).step_by(2).zip([
            ("10000000000000000", Value::from(10_000_000_000_000_000u64)),
            ("10000000000000000000000", big("10000000000000000000000")),
            ("0.0", Value::F64(0.0)),
            ("10000000000000000000000.0", Value::F64(1e22)),
            ("18446744073709551615", Value::from(u64::MAX)),
            ("18446744073709551616", big("18446744073709551616")),
            ("-9223372036854775808", Value::from(i64::MIN)),
            ("-9223372036854775809", big("-9223372036854775809")),
            (&"7".repeat(400), big(&"7".repeat(400))),
        ]) {
            put(&*saver, holding(n, 1)).await.unwrap();
            let set = format!("jsonb_set(checkpoint, '{{channel_values,x}}', '{stored}')");
            let update = format!("UPDATE checkpoints SET checkpoint = {set} {}", at(n));
            client.batch_execute(&update).await.unwrap();
            let found = x(&*saver).await.unwrap();
            assert_eq!(found, read, "{stored}");
            put(&*saver, holding(n + 1, found)).await.unwrap();
            let again = format!(
                "SELECT checkpoint -> 'channel_values' -> 'x' FROM checkpoints {}",
                at(n + 1)
            );
            assert_eq!(rows(&client, &again).await, [stored]);
        }
    });
}

/// `int(digits)`, as Python's serializer carries an instance.
fn big(digits: &str) -> Value {
    let call = Value::Array(vec!["builtins".into(), "int".into(), digits.into()]);
    Value::Ext(0, pack(&call).unwrap())
}

/// Python has no integer for it, and its floats have no room.
#[test]
fn a_number_that_nobody_has_is_refused_by_name() {
    with_saver("no-number", |saver, client| async move {
        put(&*saver, holding(0, 1)).await.unwrap();
        // PostgreSQL keeps all digits, also those behind the point.
        let stored = format!("{}.5", "7".repeat(400));
        let set = format!("jsonb_set(checkpoint, '{{channel_values,x}}', '{stored}')");
        client.batch_execute(&format!("UPDATE checkpoints SET checkpoint = {set}")).await.unwrap();
        let refused = x(&*saver).await;
        let Err(SaverError::Corrupt { thread, checkpoint, problem, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((&*thread, checkpoint), ("t", id(0)));
        assert!(problem.contains("\"x\""), "{problem}");
    });
}

/// Python's put fails for each of them as well, so that it could not go on.
#[test]
fn what_jsonb_does_not_take_is_refused_by_name() {
    with_saver("not-json", |saver, client| async move {
        let numbers = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(Value::F64);
        for odd in numbers.into_iter().chain([Value::F32(f32::NAN), Value::from("a\0b")]) {
            let refused = put(&*saver, holding(0, odd.clone())).await;
            let Err(SaverError::Unstorable { channel, problem }) = refused else {
                panic!("{odd}: {refused:?}")
            };
            assert_eq!(channel, "x");
            assert!(problem.contains("inside a list or a map"), "{problem}");
            put(&*saver, holding(0, vec![odd])).await.expect("inside a list");
        }
        assert_eq!(rows(&client, "SELECT 1 FROM checkpoints").await, ["1"]);
    });
}

/// Postgres's JSON has no sign of zero, so that it stands beside the document.
#[test]
fn a_zero_keeps_its_sign() {
    with_saver("zero", |saver, client| async move {
        put(&*saver, holding(0, -0.0)).await.unwrap();
        let found = x(&*saver).await.unwrap();
        assert_eq!(encode(&found).unwrap(), encode(&Value::F64(-0.0)).unwrap());
        assert_eq!(rows(&client, "SELECT 1 FROM checkpoint_blobs").await, ["1"]);
    });
}

#[test]
fn what_cannot_be_stored_is_refused_by_name() {
    with_saver("unstorable", |saver, client| async move {
        let mut nested = metadata(Source::Loop, 1);
        nested.extra.insert("tags".to_owned(), serde_json::json!(["a\0b"]));
        let put = saver.put(Put::new(&key("t", ""), None, holding(0, 1), nested)).await;
        let refused = put.unwrap_err().to_string();
        assert!(refused.contains("metadata"), "{refused}");
        let lost =
            Checkpoint { channel_versions: Default::default(), ..holding(0, vec![Value::Nil]) };
        let refused =
            saver.put(Put::new(&key("t", ""), None, lost, metadata(Source::Loop, 1))).await;
        assert!(matches!(refused, Err(SaverError::Unstorable { channel, .. }) if channel == "x"));
        assert_eq!(rows(&client, "SELECT 1 FROM checkpoints").await, [""; 0]);
    });
}

/// A value is stored with the checkpoint that it is new in, and found by its version afterwards.
#[test]
fn a_value_that_is_not_new_is_neither_sent_nor_lost() {
    with_saver("versions", |saver, client| async move {
        let big = holding(0, vec![Value::Nil; 3]);
        put(&*saver, big.clone()).await.unwrap();
        let mut second = holding(1, vec![Value::from("another")]);
        second.channel_versions = big.channel_versions.clone();
        let mut again = Put::new(&key("t", ""), Some(&id(0)), second, metadata(Source::Loop, 2));
        again.new_versions.clear();
        saver.put(again).await.unwrap();
        assert_eq!(rows(&client, "SELECT 1 FROM checkpoint_blobs").await, ["1"]);
        assert_eq!(x(&*saver).await.unwrap(), *big.channel_values["x"]);
    });
}

#[test]
fn a_damaged_value_is_named() {
    with_saver("damaged", |saver, client| async move {
        put(&*saver, holding(0, vec![Value::Nil])).await.unwrap();
        let writes = vec![("x".into(), shared("w"))];
        saver.put_writes(PutWrites::new(&key("t", ""), &id(0), "task", "", writes)).await.unwrap();
        for (damage, part) in [
            ("UPDATE checkpoint_writes SET blob = '\\xc1'", "channel \"x\" of task task"),
            ("UPDATE checkpoint_blobs SET blob = '\\x91'", "channel \"x\", version"),
            ("UPDATE checkpoint_blobs SET blob = NULL", "channel \"x\", version"),
            ("UPDATE checkpoint_blobs SET type = 'pickle', blob = ''", "channel \"x\", version"),
            ("UPDATE checkpoints SET metadata = '{}'", "metadata"),
            (
                "UPDATE checkpoints SET metadata = '{\"source\": \"loop\", \"step\": 1}', \
                 checkpoint = jsonb_set(checkpoint, '{channel_versions}', '[]')",
                "checkpoint",
            ),
            (
                "UPDATE checkpoints \
                 SET checkpoint = jsonb_set(checkpoint, '{channel_versions}', '\"x\"')",
                "checkpoint",
            ),
            ("UPDATE checkpoints SET checkpoint = checkpoint - 'v'", "checkpoint"),
            ("UPDATE checkpoints SET checkpoint = '[]'", "checkpoint"),
        ] {
            client.batch_execute(damage).await.unwrap();
            let problem = x(&*saver).await.unwrap_err();
            let SaverError::Corrupt { thread, checkpoint, part: found, .. } = &problem else {
                panic!("{damage}: {problem}")
            };
            assert_eq!((&**thread, checkpoint), ("t", &id(0)));
            assert!(found.starts_with(part), "{damage}: {problem}");
            saver.list("t", None, Default::default()).await.unwrap_err();
        }
        saver.delete_thread("t").await.expect("it can go nevertheless");
    });
}

/// It does not say which values it holds, so that none may go.
#[test]
fn a_damaged_checkpoint_keeps_its_values() {
    with_saver("damaged-sweep", |saver, client| async move {
        put(&*saver, holding(0, vec![Value::Nil])).await.unwrap();
        let mut of_run = metadata(Source::Loop, 1);
        of_run.extra.insert("run_id".to_owned(), "r".into());
        let second = holding(1, vec![Value::Nil]);
        saver.put(Put::new(&key("t", ""), Some(&id(0)), second, of_run)).await.unwrap();
        let damage = format!(
            "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{{channel_versions}}', '1') \
             WHERE checkpoint_id = '{}'",
            id(0)
        );
        client.batch_execute(&damage).await.unwrap();
        saver.delete_for_runs(&["r".into()]).await.unwrap();
        assert_eq!(rows(&client, "SELECT 1 FROM checkpoint_blobs").await, ["1", "1"]);
    });
}

/// As Python reads them: no value for type `empty`, versions that are numbers, keys that are missing,
/// and the tasks of layout 3, which stand as writes beside the parent.
#[test]
fn rows_of_older_versions_are_read() {
    with_saver("legacy", |saver, client| async move {
        let parent = id(0);
        let child = id(1);
        client
            .batch_execute(&format!(
                r#"INSERT INTO checkpoints (thread_id, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
                VALUES ('t', '{child}', '{parent}',
                    '{{"v": 3, "id": "{child}", "channel_versions": {{"a": 2, "b": 3}}, "pending_sends": []}}',
                    '{{"source": "loop", "step": 1, "writes": {{"n": 1}}}}');
                INSERT INTO checkpoint_blobs VALUES ('t', '', 'a', '2', 'empty', NULL),
                    ('t', '', 'b', '3', 'msgpack', '\x9101');
                INSERT INTO checkpoint_writes VALUES
                    ('t', '', '{parent}', 'task', 1, '__pregel_tasks', 'msgpack', '\xa162', '~b'),
                    ('t', '', '{parent}', 'task', 0, '__pregel_tasks', 'msgpack', '\xa161', '~b'),
                    ('t', '', '{parent}', 'zask', 0, '__pregel_tasks', 'msgpack', '\xa163', '~a'),
                    ('t', '', '{parent}', 'task', 2, 'other', 'msgpack', '\xa164', '~a')"#
            ))
            .await
            .unwrap();
        let tuple = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap();
        let values: Vec<(&str, &Shared)> =
            tuple.checkpoint.channel_values.iter().map(|(name, value)| (&**name, value)).collect();
        // By path, task and index.
        let sends = shared(vec![Value::from("c"), "a".into(), "b".into()]);
        assert_eq!(values, [("b", &shared(vec![Value::from(1)])), ("__pregel_tasks", &sends)]);
        assert_eq!(&*tuple.checkpoint.channel_versions["__pregel_tasks"], "3");
        assert_eq!(tuple.metadata.extra["writes"], serde_json::json!({"n": 1}));
        assert_eq!(short(&tuple.writes), []);
    });
}

/// Bytes that are no values of ours are carried as they are: here a Python object.
#[test]
fn values_that_mean_nothing_here_survive() {
    with_saver("foreign", |saver, client| async move {
        let object = Value::Ext(2, b"\x93\xa3app\xa4Cart\x81\xa1n\x01".to_vec());
        let first = holding(0, object.clone());
        put(&*saver, first).await.unwrap();
        let read = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap().checkpoint;
        saver.copy_thread("t", "u").await.unwrap();
        put(&*saver, Checkpoint { channel_versions: holding(1, 1).channel_versions, ..read })
            .await
            .unwrap();
        let bytes =
            rows(&client, "SELECT DISTINCT encode(blob, 'hex') FROM checkpoint_blobs").await;
        assert_eq!(bytes, ["c70e0293a3617070a44361727481a16e01"]);
        assert_eq!(rows(&client, "SELECT 1 FROM checkpoint_blobs").await.len(), 3);
    });
}

/// A value goes when the last checkpoint goes that holds it.
#[test]
fn pruned_and_deleted_threads_leave_no_values() {
    with_saver("sweep", |saver, client| async move {
        let held = async || {
            rows(
                &client,
                "SELECT thread_id || ' ' || left(version, 32) FROM checkpoint_blobs ORDER BY 1",
            )
            .await
        };
        let of = |thread: &str, n: u32| {
            let metadata = metadata(Source::Loop, n.into());
            Put::new(&key(thread, ""), None, holding(n, vec![Value::from(n)]), metadata)
        };
        let name = |thread: &str, n: u32| format!("{thread} {:032}", n + 1);
        for n in 0..3 {
            saver.put(of("t", n)).await.unwrap();
            saver.put(of("u", n)).await.unwrap();
        }
        let names = ["t".into()];
        saver.prune(&names, durasim_runtime::checkpoint::saver::Keep::Latest).await.unwrap();
        assert_eq!(held().await, [name("t", 2), name("u", 0), name("u", 1), name("u", 2)]);
        let mut of_run = of("u", 4);
        of_run.metadata.extra.insert("run_id".to_owned(), "r".into());
        saver.put(of_run).await.unwrap();
        saver.delete_for_runs(&["r".into()]).await.unwrap();
        assert_eq!(held().await, [name("t", 2), name("u", 0), name("u", 1), name("u", 2)]);
        saver.delete_thread("u").await.unwrap();
        assert_eq!(held().await, [name("t", 2)]);
    });
}

/// A statement is another one where there are more rows.
#[test]
fn any_number_of_rows_lands() {
    with_saver("numbers", |saver, _| async move {
        for n in 0..9 {
            let names: Vec<Arc<str>> = (0..n).map(|channel| format!("c{channel}").into()).collect();
            let list =
                |name: &Arc<str>| (name.clone(), shared(Value::Array(vec![(**name).into()])));
            let version: Arc<str> = format!("{:032}.0.5", n + 1).into();
            let stored = Checkpoint {
                channel_values: names.iter().map(list).collect(),
                channel_versions: names.iter().map(|c| (c.clone(), version.clone())).collect(),
                updated_channels: None,
                ..checkpoint(n)
            };
            put(&*saver, stored.clone()).await.expect("a put");
            for task in ["added", "added once more"] {
                let writes: Vec<(Arc<str>, Shared)> = names.iter().map(list).collect();
                let writes = PutWrites::new(&key("t", ""), &id(n), task, "", writes);
                saver.put_writes(writes).await.expect("writes");
            }
            let tuple = saver.get_tuple(&key("t", ""), Some(&id(n))).await.unwrap().unwrap();
            let sorted = |checkpoint: &Checkpoint| {
                let values = checkpoint.channel_values.clone();
                values.into_iter().collect::<std::collections::BTreeMap<_, _>>()
            };
            assert_eq!(sorted(&tuple.checkpoint), sorted(&stored), "{n} values");
            let channels: Vec<_> = tuple.writes.iter().map(|write| write.channel.clone()).collect();
            assert_eq!(channels, [&names[..], &names[..]].concat(), "{n} writes");
        }
    });
}
