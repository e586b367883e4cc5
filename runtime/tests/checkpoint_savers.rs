//! What every saver does, and where LangGraph's savers differ.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::sync::Arc;

use checkpoint_support::{
    TestFile, block_on, checkpoint, doors_with_log, id, key, metadata, shared, short,
};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_runtime::checkpoint::reserved::{ERROR, INTERRUPT, NULL_TASK, RESUME, SCHEDULED};
use durasim_runtime::checkpoint::saver::{ListFilter, Put, PutWrites, Saver};
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::checkpoint::{CheckpointTuple, Source};
use durasim_runtime::doors::Operation;
use durasim_runtime::value::{Shared, Value};
use postgres_support::Server;
use serde_json::json;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Memory,
    Sqlite,
    Postgres,
}

/// Runs `check` with a fresh saver of each kind.
fn each<F: Future<Output = ()>>(test: &str, check: impl Fn(Arc<dyn Saver>, Kind) -> F) {
    let (doors, log) = doors_with_log();
    block_on(check(Arc::new(MemorySaver::new(&doors)), Kind::Memory));
    block_on(async {
        let file = TestFile::new(test);
        let saver = SqliteSaver::open(file.path(), &doors).await.expect("the file opens");
        check(saver, Kind::Sqlite).await;
    });
    if let Some(server) = Server::get() {
        block_on(async {
            let saver = PostgresSaver::open(&server.database(test), &doors).await;
            check(saver.expect("the database opens"), Kind::Postgres).await;
        });
    }
    assert_eq!(log.inside(), 0, "every point was left");
}

async fn put(saver: &dyn Saver, thread: &str, namespace: &str, n: u32) {
    let (checkpoint, parent) = (checkpoint(n), n.checked_sub(1).map(id));
    let mut metadata = metadata(Source::Loop, n.into());
    metadata.extra.insert("request".to_owned(), format!("r{}", n % 2).into());
    let key = key(thread, namespace);
    saver.put(Put::new(&key, parent.as_deref(), checkpoint, metadata)).await.expect("a put");
}

async fn write(saver: &dyn Saver, n: u32, task: &str, path: &str, writes: &[(&str, &str)]) {
    let write = |&(channel, value): &(&str, &str)| (channel.into(), shared(value));
    let writes: Vec<(Arc<str>, Shared)> = writes.iter().map(write).collect();
    saver
        .put_writes(PutWrites::new(&key("t", ""), &id(n), task, path, writes))
        .await
        .expect("writes");
}

async fn get(saver: &dyn Saver, n: u32) -> CheckpointTuple {
    saver.get_tuple(&key("t", ""), Some(&id(n))).await.expect("a read").expect("a checkpoint")
}

/// Pending writes as `task channel=value`.
async fn writes(saver: &dyn Saver, n: u32) -> Vec<String> {
    let tuple = get(saver, n).await;
    let line = |(task, channel, value): (&str, &str, String)| {
        format!("{task} {channel}={}", value.trim_matches('"'))
    };
    short(&tuple.writes).into_iter().map(line).collect()
}

async fn listed(
    saver: &dyn Saver,
    namespace: Option<&str>,
    filter: ListFilter,
) -> Vec<(String, i64)> {
    let tuples = saver.list("t", namespace, filter).await.expect("a listing");
    tuples.iter().map(|t| (t.key.namespace.to_string(), t.metadata.step)).collect()
}

#[test]
fn a_checkpoint_comes_back_as_it_was() {
    each("round-trip", |saver, _| async move {
        assert_eq!(saver.get_tuple(&key("t", ""), None).await.unwrap(), None);
        put(&*saver, "t", "", 0).await;
        put(&*saver, "t", "", 1).await;
        let first = get(&*saver, 0).await;
        assert_eq!(first.key, key("t", ""));
        assert_eq!(first.checkpoint, checkpoint(0));
        assert_eq!(first.parent, None);
        assert_eq!((first.metadata.source, first.metadata.step), (Source::Loop, 0));
        assert_eq!(first.metadata.extra["request"], "r0");
        assert_eq!(first.writes, []);
        let latest = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap();
        assert_eq!(latest.checkpoint, checkpoint(1));
        assert_eq!(latest.parent.as_deref(), Some(&*id(0)));
        assert_eq!(saver.get_tuple(&key("t", ""), Some(&id(7))).await.unwrap(), None);
        assert_eq!(saver.get_tuple(&key("other", ""), None).await.unwrap(), None);
    });
}

#[test]
fn the_greatest_id_is_the_latest_whatever_came_last() {
    each("latest", |saver, _| async move {
        for n in [1, 2, 0] {
            put(&*saver, "t", "", n).await;
        }
        let latest = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap();
        assert_eq!(&*latest.checkpoint.id, id(2));
    });
}

#[test]
fn a_second_put_of_an_id_replaces_it_and_keeps_its_writes() {
    each("replace", |saver, kind| async move {
        put(&*saver, "t", "", 1).await;
        write(&*saver, 1, "task", "", &[("steps", "a")]).await;
        let mut again = checkpoint(1);
        again.channel_values.insert("steps".into(), shared("other"));
        again.channel_versions.insert("steps".into(), format!("{:032}.0.25", 9).into());
        let metadata = metadata(Source::Fork, 8);
        saver.put(Put::new(&key("t", ""), Some(""), again.clone(), metadata)).await.unwrap();
        let tuple = get(&*saver, 1).await;
        assert_eq!(tuple.checkpoint, again);
        assert_eq!((tuple.metadata.source, tuple.metadata.step), (Source::Fork, 8));
        match kind {
            // The row is updated, and not its parent.
            Kind::Postgres => assert_eq!(tuple.parent.as_deref(), Some(&*id(0))),
            _ => assert_eq!(tuple.parent, None, "an empty parent is none"),
        }
        assert_eq!(writes(&*saver, 1).await, ["task steps=a"]);
    });
}

#[test]
fn writes_may_come_before_their_checkpoint() {
    each("early-writes", |saver, _| async move {
        write(&*saver, 0, "task", "", &[("steps", "a")]).await;
        assert_eq!(saver.get_tuple(&key("t", ""), None).await.unwrap(), None);
        put(&*saver, "t", "", 0).await;
        assert_eq!(writes(&*saver, 0).await, ["task steps=a"]);
    });
}

#[test]
fn writes_are_ordered() {
    each("write-order", |saver, kind| async move {
        put(&*saver, "t", "", 0).await;
        write(&*saver, 0, "c", "~__pregel_pull, a", &[("x", "1"), ("y", "2")]).await;
        write(&*saver, 0, "b", "~__pregel_pull, b", &[("x", "3")]).await;
        write(&*saver, 0, "b", "~__pregel_pull, b", &[(ERROR, "4")]).await;
        write(&*saver, 0, "a", "~__pregel_pull, b", &[("x", "5")]).await;
        write(&*saver, 0, NULL_TASK, "", &[("x", "6")]).await;
        let expected = match kind {
            // By task path, task, index.
            Kind::Memory => ["0 x=6", "c x=1", "c y=2", "a x=5", "b __error__=4", "b x=3"],
            // By task, index: SQLite's table has no task path.
            Kind::Sqlite | Kind::Postgres => {
                ["0 x=6", "a x=5", "b __error__=4", "b x=3", "c x=1", "c y=2"]
            }
        };
        let found = writes(&*saver, 0).await;
        assert_eq!(found.iter().map(|w| w.replace(NULL_TASK, "0")).collect::<Vec<_>>(), expected);
    });
}

#[test]
fn ten_writes_are_ordered_by_number() {
    each("ten-writes", |saver, _| async move {
        put(&*saver, "t", "", 0).await;
        let values: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        let all: Vec<_> = values.iter().map(|value| ("x", &**value)).collect();
        write(&*saver, 0, "a", "", &all).await;
        let expected: Vec<_> = values.iter().map(|value| format!("a x={value}")).collect();
        assert_eq!(writes(&*saver, 0).await, expected);
    });
}

#[test]
fn regular_writes_keep_what_is_there() {
    each("ignore", |saver, _| async move {
        put(&*saver, "t", "", 0).await;
        write(&*saver, 0, "a", "", &[("x", "first")]).await;
        // The second run of the task: its first row is kept, a new one is added.
        write(&*saver, 0, "a", "", &[("z", "second"), ("y", "second")]).await;
        assert_eq!(writes(&*saver, 0).await, ["a x=first", "a y=second"]);
        write(&*saver, 0, "a", "", &[]).await;
        assert_eq!(writes(&*saver, 0).await, ["a x=first", "a y=second"]);
    });
}

#[test]
fn special_writes_alone_replace_and_have_fixed_places() {
    each("special", |saver, _| async move {
        put(&*saver, "t", "", 0).await;
        write(&*saver, 0, "a", "", &[(ERROR, "1"), (INTERRUPT, "1")]).await;
        write(&*saver, 0, "a", "", &[(RESUME, "1"), (SCHEDULED, "1")]).await;
        write(&*saver, 0, "a", "", &[(INTERRUPT, "2"), (INTERRUPT, "3")]).await;
        write(&*saver, 0, "a", "", &[("x", "regular")]).await;
        assert_eq!(
            writes(&*saver, 0).await,
            [
                "a __resume__=1",
                "a __interrupt__=3",
                "a __scheduled__=1",
                "a __error__=1",
                "a x=regular"
            ]
        );
    });
}

#[test]
fn special_writes_beside_regular_ones_differ() {
    each("mixed", |saver, kind| async move {
        put(&*saver, "t", "", 0).await;
        write(&*saver, 0, "a", "", &[(RESUME, "old")]).await;
        // A resumed task: the regular write stands at place 1.
        write(&*saver, 0, "a", "", &[(RESUME, "new"), ("x", "1")]).await;
        write(&*saver, 0, "a", "", &[("y", "0")]).await;
        let resume = match kind {
            Kind::Memory => "a __resume__=new",
            Kind::Sqlite | Kind::Postgres => "a __resume__=old",
        };
        assert_eq!(writes(&*saver, 0).await, [resume, "a y=0", "a x=1"]);
    });
}

#[test]
fn every_kind_of_value_survives_as_a_write() {
    each("write-values", |saver, _| async move {
        put(&*saver, "t", "", 0).await;
        let values = [
            Value::Nil,
            Value::Binary(vec![0, 255]),
            Value::Ext(3, vec![1, 2]),
            Value::Array(vec![Value::Nil, Value::Binary(vec![])]),
            "nul \0".into(),
        ];
        let all = values.iter().map(|v| ("x".into(), shared(v.clone()))).collect();
        saver.put_writes(PutWrites::new(&key("t", ""), &id(0), "a", "", all)).await.unwrap();
        let tuple = get(&*saver, 0).await;
        let found: Vec<_> = tuple.writes.iter().map(|write| (*write.value).clone()).collect();
        assert_eq!(found, values);
    });
}

/// A clock that was set back makes a child that sorts before its parent.
#[test]
fn a_past_is_followed_by_parents_and_not_by_ids() {
    each("past", |saver, _| async move {
        let (key, channels) = (key("t", ""), ["log".into(), "steps".into()]);
        let at = |n, parent: Option<u32>| {
            let parent = parent.map(id);
            Put::new(&key, parent.as_deref(), checkpoint(n), metadata(Source::Loop, 0))
        };
        let mut child = at(3, Some(9));
        child.checkpoint.channel_values.shift_remove("steps");
        saver.put(at(9, None)).await.unwrap();
        saver.put(child).await.unwrap();
        let writes = vec![("log".into(), shared("x"))];
        saver.put_writes(PutWrites::new(&key, &id(9), "task", "", writes)).await.unwrap();
        let past = saver.get_delta_channel_history(&key, Some(&id(3)), &channels).await.unwrap();
        assert_eq!(short(&past["log"].writes), [("task", "log", "\"x\"".to_owned())]);
        assert_eq!(past["steps"].seed, checkpoint(9).channel_values.get("steps").cloned());
        // One that is its own ancestor does not hold the walk.
        let mut ring = at(9, Some(3));
        ring.checkpoint.channel_values.clear();
        saver.put(ring).await.unwrap();
        let past = saver.get_delta_channel_history(&key, Some(&id(3)), &channels[..1]).await;
        assert_eq!(short(&past.unwrap()["log"].writes), [("task", "log", "\"x\"".to_owned())]);
    });
}

#[test]
fn namespaces_are_apart() {
    each("namespaces", |saver, _| async move {
        put(&*saver, "t", "", 1).await;
        put(&*saver, "t", "sub:1", 2).await;
        put(&*saver, "t", "zub:1", 0).await;
        write(&*saver, 1, "a", "", &[("x", "root")]).await;
        let inner = saver.get_tuple(&key("t", "sub:1"), None).await.unwrap().unwrap();
        assert_eq!((&*inner.checkpoint.id, inner.key), (&*id(2), key("t", "sub:1")));
        assert_eq!(inner.writes, []);
        let root = saver.get_tuple(&key("t", ""), None).await.unwrap().unwrap();
        assert_eq!(&*root.checkpoint.id, id(1));
        assert_eq!(root.writes.len(), 1);
        assert_eq!(saver.get_tuple(&key("t", "sub:1"), Some(&id(1))).await.unwrap(), None);
        let all = ListFilter::default;
        let name = |n: &str| n.to_owned();
        assert_eq!(
            listed(&*saver, None, all()).await,
            [(name("sub:1"), 2), (name(""), 1), (name("zub:1"), 0)]
        );
        assert_eq!(listed(&*saver, Some(""), all()).await, [(name(""), 1)]);
    });
}

#[test]
fn listings_are_filtered() {
    each("list", |saver, _| async move {
        for n in 0..6 {
            put(&*saver, "t", "", n).await;
        }
        put(&*saver, "other", "", 9).await;
        write(&*saver, 2, "a", "", &[("x", "1")]).await;
        let steps = async |filter: ListFilter| -> Vec<i64> {
            listed(&*saver, Some(""), filter).await.into_iter().map(|(_, step)| step).collect()
        };
        let filter = |text: serde_json::Value| text.as_object().unwrap().clone();
        assert_eq!(steps(ListFilter::default()).await, [5, 4, 3, 2, 1, 0]);
        let before = ListFilter { before: Some(id(3).into()), ..ListFilter::default() };
        assert_eq!(steps(before.clone()).await, [2, 1, 0]);
        assert_eq!(steps(ListFilter { limit: Some(2), ..before.clone() }).await, [2, 1]);
        assert_eq!(steps(ListFilter { limit: Some(0), ..before.clone() }).await, [0i64; 0]);
        let odd = ListFilter { metadata: filter(json!({"request": "r1"})), ..before.clone() };
        assert_eq!(steps(odd.clone()).await, [1]);
        let odd = ListFilter { before: None, limit: Some(2), ..odd };
        assert_eq!(steps(odd).await, [5, 3], "the limit counts what fits");
        let of = |text| ListFilter { metadata: filter(text), ..ListFilter::default() };
        assert_eq!(steps(of(json!({"step": 4, "source": "loop", "parents": {}}))).await, [4]);
        assert_eq!(steps(of(json!({"step": 4, "source": "input"}))).await, [0i64; 0]);
        assert_eq!(steps(of(json!({"missing": null, "step": 1}))).await, [1]);
        assert_eq!(steps(of(json!({"missing": 0}))).await, [0i64; 0]);
        let tuples = saver.list("t", None, before).await.unwrap();
        assert_eq!(short(&tuples[0].writes).len(), 1, "a listing holds the pending writes");
        assert_eq!(saver.list("nobody", None, ListFilter::default()).await.unwrap(), []);
    });
}

#[test]
fn a_deleted_thread_leaves_nothing() {
    each("delete", |saver, _| async move {
        for namespace in ["", "sub:1"] {
            put(&*saver, "t", namespace, 0).await;
        }
        put(&*saver, "other", "", 0).await;
        write(&*saver, 0, "a", "", &[("x", "1")]).await;
        saver.delete_thread("t").await.unwrap();
        saver.delete_thread("nobody").await.unwrap();
        assert_eq!(listed(&*saver, None, ListFilter::default()).await, []);
        put(&*saver, "t", "", 0).await;
        assert_eq!(writes(&*saver, 0).await, [""; 0]);
        assert!(saver.get_tuple(&key("other", ""), None).await.unwrap().is_some());
    });
}

#[test]
fn names_are_arbitrary_text() {
    each("names", |saver, kind| async move {
        let names = ["", " ", "a'b\"c;--", "zażółć 🦀", "nul\0tail", "nul", "%", "1", "1.0"];
        let refused = |name: &&str| kind == Kind::Postgres && name.contains('\0');
        for name in names.iter().filter(|name| refused(name)) {
            let key = key(name, "");
            let put = Put::new(&key, None, checkpoint(0), metadata(Source::Loop, 0));
            let problem = saver.put(put).await.unwrap_err().to_string();
            assert!(problem.contains("keeps no U+0000"), "{problem}");
            saver.get_tuple(&key, None).await.unwrap_err();
        }
        let names: Vec<_> = names.into_iter().filter(|name| !refused(name)).collect();
        for (n, name) in (0..).zip(&names) {
            put(&*saver, name, name, n).await;
            saver
                .put_writes(PutWrites::new(
                    &key(name, name),
                    &id(n),
                    name,
                    name,
                    vec![((*name).into(), shared(*name))],
                ))
                .await
                .unwrap();
        }
        for (n, name) in (0..).zip(&names) {
            let tuple = saver.get_tuple(&key(name, name), None).await.unwrap().expect(name);
            assert_eq!(&*tuple.checkpoint.id, id(n), "{name:?}");
            assert_eq!((&*tuple.writes[0].task, &*tuple.writes[0].channel), (*name, *name));
            assert_eq!(saver.list(name, None, ListFilter::default()).await.unwrap().len(), 1);
        }
    });
}

#[test]
fn metadata_strings_lose_nul() {
    each("nul", |saver, _| async move {
        let mut metadata = metadata(Source::Input, -1);
        metadata.extra.insert("request".to_owned(), "a\0b".into());
        let put = saver.put(Put::new(&key("t", ""), None, checkpoint(0), metadata));
        put.await.unwrap();
        assert_eq!(get(&*saver, 0).await.metadata.extra["request"], "ab");
    });
}

#[test]
fn every_call_passes_the_gate() {
    let check = async |saver: Arc<dyn Saver>| {
        put(&*saver, "t", "", 0).await;
        write(&*saver, 0, "a", "", &[("x", "1")]).await;
        get(&*saver, 0).await;
        saver.get_tuple(&key("t", ""), None).await.unwrap();
        saver.list("t", None, ListFilter::default()).await.unwrap();
        saver.delete_thread("t").await.unwrap();
    };
    let (doors, log) = doors_with_log();
    let file = TestFile::new("gate");
    block_on(async {
        check(Arc::new(MemorySaver::new(&doors))).await;
        check(SqliteSaver::open(file.path(), &doors).await.unwrap()).await;
    });
    let came = log.came.lock().unwrap();
    assert_eq!(came[..6], came[6..], "both savers come to the same points");
    let (read, write) = (Operation::SaverRead, Operation::SaverWrite);
    let seen: Vec<_> = came[..6].iter().map(|point| (point.operation, &*point.id)).collect();
    let zero = id(0);
    let expected =
        [(write, &*zero), (write, &*zero), (read, &*zero), (read, ""), (read, ""), (write, "")];
    assert_eq!(seen, expected);
    assert!(came.iter().all(|point| &*point.key == "t" && &*point.actor == "t"));
}

#[test]
fn a_future_does_nothing_until_it_is_polled() {
    each("lazy", |saver, _| async move {
        let metadata = metadata(Source::Input, -1);
        let put = saver.put(Put::new(&key("t", ""), None, checkpoint(0), metadata));
        drop(put);
        drop(saver.delete_thread("t"));
        assert_eq!(saver.get_tuple(&key("t", ""), None).await.unwrap(), None);
    });
}
