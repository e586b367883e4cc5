//! Writes of a thread that go to PostgreSQL together come to the same as one by one, and as on SQLite:
//! the same ends, and the same rows.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use checkpoint_support::{TestFile, block_on, checkpoint, id, key, metadata, shared};
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::saver::{
    Claim, Fate, Landing, ListFilter, Put, PutWrites, Saver, SaverError,
};
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::checkpoint::{Checkpoint, Source};
use durasim_runtime::value::Value;
use durasim_runtime::{Doors, checkpoint::ThreadKey};
use futures::FutureExt;
use futures::future::join_all;
use postgres_support::{Server, connect};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;

#[derive(Debug, Clone)]
enum Write {
    Checkpoint { n: u32, values: usize, is_unstorable: bool, at_head: bool },
    Rows { n: u32, task: u8, rows: usize, special: Special },
}

#[derive(Debug, Clone, Copy)]
enum Special {
    No,
    /// The first row only: others keep what is there.
    First,
    /// All rows: they replace what is there.
    All,
}

/// A write with what it claims, as before any deletion or as after one, and whose fate it shares.
#[derive(Debug, Clone)]
struct Deed {
    write: Write,
    deletions: Option<u32>,
    fate: usize,
}

const EARLY: u32 = 0;
const LATE: u32 = 1;

fn deed() -> impl Strategy<Value = Deed> {
    let checkpoint = (
        0..5u32,
        select(vec![0usize, 1, 4, 5, 9]),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    );
    let checkpoint = checkpoint.prop_map(|(n, values, is_unstorable, at_head)| Write::Checkpoint {
        n,
        values,
        is_unstorable,
        at_head,
    });
    let special = select(vec![Special::No, Special::First, Special::All]);
    let rows = (0..5u32, 0..3u8, select(vec![0usize, 1, 4, 5, 8]), special);
    let rows = rows.prop_map(|(n, task, rows, special)| Write::Rows { n, task, rows, special });
    let write = prop_oneof![checkpoint, rows];
    (write, select(vec![None, Some(EARLY), Some(LATE)]), 0..3usize)
        .prop_map(|(write, deletions, fate)| Deed { write, deletions, fate })
}

/// Nested deeper than any saver takes.
fn too_deep() -> Value {
    (0..300).fold(Value::Nil, |value, _| Value::Array(vec![value]))
}

fn holding(n: u32, values: usize, is_unstorable: bool, nth: usize) -> Checkpoint {
    let mut made = checkpoint(n);
    made.channel_values.clear();
    made.channel_versions.clear();
    let version: Arc<str> = format!("{:032}.0.{nth}", n + 1).into();
    let values = (0..values).map(|value| Value::Array(vec![format!("{nth}-{value}").into()]));
    let all = values.chain(is_unstorable.then(too_deep));
    for (place, value) in all.enumerate() {
        let channel: Arc<str> = format!("c{place}").into();
        made.channel_versions.insert(channel.clone(), version.clone());
        made.channel_values.insert(channel, shared(value));
    }
    made
}

fn rows(count: usize, special: Special, nth: usize) -> Vec<(Arc<str>, Arc<Value>)> {
    let all = ["__error__", "__interrupt__", "__resume__", "__scheduled__"];
    let name = |place: usize| match special {
        Special::All => all[place % all.len()].into(),
        Special::First if place == 0 => "__resume__".into(),
        _ => format!("w{place}").into(),
    };
    (0..count).map(|place| (name(place), shared(format!("{nth}-{place}")))).collect()
}

async fn submit(
    saver: &dyn Saver,
    at: &ThreadKey,
    nth: usize,
    deed: &Deed,
    fate: &Fate,
) -> Landing {
    let deletions = deed.deletions;
    match deed.write {
        Write::Checkpoint { n, values, is_unstorable, at_head } => {
            let parent = n.checked_sub(1).map(id);
            let made = holding(n, values, is_unstorable, nth);
            let put = Put::new(at, parent.as_deref(), made, metadata(Source::Loop, nth as i64));
            let claim = Claim { deletions, parent_is_head: at_head };
            saver.submit_put(Put { claim, fate: fate.clone(), ..put }).await
        }
        Write::Rows { n, task, rows: count, special } => {
            let writes = rows(count, special, nth);
            let put = PutWrites::new(at, &id(n), &format!("task-{task}"), "p", writes);
            let claim = Claim { deletions, parent_is_head: false };
            saver.submit_writes(PutWrites { claim, fate: fate.clone(), ..put }).await
        }
    }
}

fn kind(end: &Result<(), SaverError>) -> &'static str {
    match end {
        Ok(()) => "landed",
        Err(SaverError::Deleted { .. }) => "deleted",
        Err(SaverError::NotHead { .. }) => "not head",
        Err(SaverError::Unfounded { .. }) => "unfounded",
        Err(SaverError::Unstorable { .. }) => "unstorable",
        Err(other) => panic!("{other}"),
    }
}

/// How the writes end, and what is there in the end.
async fn play(
    saver: &dyn Saver,
    thread: &str,
    deeds: &[Deed],
    was_deleted: bool,
    at_once: bool,
) -> (Vec<&'static str>, Vec<String>) {
    if was_deleted {
        saver.delete_thread(thread).await.expect("it goes");
    }
    let fates = [Fate::shared(), Fate::shared(), Fate::default()];
    let (mut landings, mut ends) = (vec![], vec![]);
    for (nth, deed) in deeds.iter().enumerate() {
        let landing = submit(saver, &key(thread, ""), nth, deed, &fates[deed.fate]).await;
        match at_once {
            true => landings.push(landing),
            false => ends.push(landing.end().await),
        }
    }
    ends.extend(join_all(landings.into_iter().map(Landing::end)).await);
    let stored = saver.list(thread, None, ListFilter::default()).await.expect("a list");
    let told = stored.iter().map(|tuple| {
        let values = tuple.checkpoint.channel_values.iter();
        let mut values: Vec<_> =
            values.map(|(channel, value)| format!("{channel}={value}")).collect();
        values.sort();
        let writes = tuple.writes.iter();
        let writes: Vec<_> =
            writes.map(|w| format!("{} {}={}", w.task, w.channel, w.value)).collect();
        format!("{} {} {values:?} {writes:?}", tuple.checkpoint.id, tuple.metadata.step)
    });
    (ends.iter().map(kind).collect(), told.collect())
}

#[test]
fn together_is_as_one_by_one() {
    let Some(server) = Server::get() else { return };
    let url = server.database("groups");
    let file = TestFile::new("groups");
    let count = AtomicU32::default();
    // The same cases every time; `PROPTEST_RNG_SEED` asks for others.
    let default = ProptestConfig::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(0),
        asked => asked,
    };
    let config = ProptestConfig { failure_persistence: None, cases: 64, rng_seed, ..default };
    proptest!(config, |(deeds in vec(deed(), 1..14), was_deleted in any::<bool>())| {
        let case = count.fetch_add(1, Ordering::Relaxed);
        let (together, alone, prepared, in_file) = block_on(async {
            let saver = PostgresSaver::open(&url, &Doors::production()).await.unwrap();
            let (a, b) = (format!("a{case}"), format!("b{case}"));
            let together = play(&*saver, &a, &deeds, was_deleted, true).await;
            let alone = play(&*saver, &b, &deeds, was_deleted, false).await;
            saver.close();
            let options = PostgresOptions { prepared_statements: true, ..Default::default() };
            let saver = PostgresSaver::open_with(&url, &Doors::production(), options);
            let saver = saver.await.unwrap();
            // The second time, its statements are there.
            let (c, d) = (format!("c{case}"), format!("d{case}"));
            let first = play(&*saver, &c, &deeds, was_deleted, true).await;
            let prepared = [first, play(&*saver, &d, &deeds, was_deleted, true).await];
            saver.close();
            let saver = SqliteSaver::open(file.path(), &Doors::production()).await.unwrap();
            (together, alone, prepared, play(&*saver, &a, &deeds, was_deleted, true).await)
        });
        prop_assert_eq!(&together, &alone, "one by one");
        for prepared in &prepared {
            prop_assert_eq!(&together, prepared, "prepared");
        }
        prop_assert_eq!(&together, &in_file, "SQLite");
    });
}

/// The claims of a group are as many as its writes.
#[test]
fn one_late_write_in_a_group_is_refused() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("groups_late");
        let saver = PostgresSaver::open(&url, &Doors::production()).await.unwrap();
        for order in [[EARLY, LATE], [LATE, EARLY]] {
            let write = Write::Rows { n: 0, task: 0, rows: 1, special: Special::No };
            let deed = |times| Deed { write: write.clone(), deletions: Some(times), fate: 0 };
            let (ends, _) =
                play(&*saver, &format!("{order:?}"), &order.map(deed), true, true).await;
            let expected = order.map(|times| if times == EARLY { "deleted" } else { "landed" });
            assert_eq!(ends, expected);
        }
    });
}

/// One limit for a group, not one for each of its writes.
#[test]
fn a_group_waits_once_for_a_connection() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("groups_full");
        let acquire_limit = Duration::from_secs(1);
        let options =
            PostgresOptions { max_connections: 1, acquire_limit, ..PostgresOptions::default() };
        let saver = PostgresSaver::open_with(&url, &Doors::production(), options).await.unwrap();
        let client = connect(&url).await;
        client.batch_execute("BEGIN; LOCK TABLE checkpoints").await.unwrap();
        let holds = tokio::spawn(saver.get_tuple(&key("u", ""), None));
        tokio::task::yield_now().await;
        let deed = Deed {
            write: Write::Rows { n: 0, task: 0, rows: 1, special: Special::No },
            deletions: None,
            fate: 2,
        };
        let mut landings = vec![];
        for nth in 0..20 {
            landings.push(submit(&*saver, &key("t", ""), nth, &deed, &Fate::default()).await);
        }
        let all = join_all(landings.into_iter().map(Landing::end));
        let ends = tokio::time::timeout(10 * acquire_limit, all).await.expect("not one by one");
        for end in ends {
            let refused = end.unwrap_err().to_string();
            assert!(refused.contains("no connection became free"), "{refused}");
        }
        client.batch_execute("ROLLBACK").await.unwrap();
        holds.await.unwrap().unwrap();
    });
}

/// On a runtime of several threads a write may come while the worker of its lane leaves.
#[test]
#[allow(clippy::disallowed_methods)] // There is no world, and it takes a thread to race with one.
fn a_write_that_meets_a_leaving_worker_lands() {
    let Some(server) = Server::get() else { return };
    let url = server.database("groups_race");
    // One thread drives the runtime, this one submits.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let saver = runtime.block_on(PostgresSaver::open(&url, &Doors::production())).unwrap();
    let (done, is_done) = futures::channel::oneshot::channel::<()>();
    let driver = std::thread::spawn(move || runtime.block_on(is_done));
    let _entered = handle.enter();
    let write = |n: u32| {
        let writes = vec![("c".into(), shared("v"))];
        saver.submit_writes(PutWrites::new(&key("t", ""), &id(0), &format!("task-{n}"), "", writes))
    };
    for n in 0..2_000u32 {
        let first = write(0).now_or_never().expect("it has its place at once");
        let (mut first, second) = (Box::pin(first.end()), write(1));
        let landed = std::iter::repeat_with(|| first.as_mut().now_or_never()).find_map(|end| end);
        landed.expect("an end").expect("the first lands");
        // Somewhere within the worker's way out.
        for _ in 0..(n % 200) * 10 {
            std::hint::spin_loop();
        }
        let second = second.now_or_never().expect("it has its place at once");
        handle.block_on(second.end()).expect("the second lands");
    }
    drop(done);
    let _ = driver.join();
}
