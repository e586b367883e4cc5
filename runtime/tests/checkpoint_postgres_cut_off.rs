//! Calls that are given up wherever they wait, servers that go away, and many callers at once. What is
//! stored is whole, and the next call finds a connection as good as new.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use checkpoint_support::{block_on, checkpoint, id, key, metadata, shared};
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::saver::{
    Claim, Keep, ListFilter, Put, PutWrites, Saver, SaverError, SaverResult,
};
use durasim_runtime::checkpoint::{ChannelVersions, Source};
use durasim_runtime::value::Value;
use durasim_runtime::{Doors, checkpoint::CheckpointTuple};
use futures::future::join_all;
use postgres_support::{Server, connect, rows};
use tokio_postgres::Client;

/// A claim with everything in it, which is never too late here.
fn claim() -> Claim {
    Claim { deletions: Some(u32::MAX), parent_is_head: true }
}

fn put(thread: &str, n: u32) -> Put {
    let parent = n.checked_sub(1).map(id);
    let metadata = metadata(Source::Loop, n.into());
    Put { claim: claim(), ..Put::new(&key(thread, ""), parent.as_deref(), checkpoint(n), metadata) }
}

/// Wherever the head is: such a put is a prepared one, if statements are.
fn put_anywhere(n: u32) -> Put {
    let claim = Claim { parent_is_head: false, ..claim() };
    Put { claim, ..put("t", n) }
}

fn writes(thread: &str, n: u32) -> PutWrites {
    let writes = (0..5).map(|k| ("steps".into(), shared(k))).collect();
    PutWrites { claim: claim(), ..PutWrites::new(&key(thread, ""), &id(n), "task", "", writes) }
}

async fn open(url: &str, options: PostgresOptions) -> Arc<PostgresSaver> {
    let opened = PostgresSaver::open_with(url, &Doors::production(), options).await;
    opened.expect("the database opens")
}

fn one_connection() -> PostgresOptions {
    PostgresOptions { max_connections: 1, ..PostgresOptions::default() }
}

/// Polls a call `times` times; its result, if it was over by then.
async fn poll_and_drop<T>(mut call: SaverResult<T>, times: usize) -> Option<Result<T, SaverError>> {
    for _ in 0..times {
        let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        if let Poll::Ready(result) = polled {
            return Some(result);
        }
        // Until something happens, or not: either is a place to be dropped at.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    None
}

async fn get(saver: &dyn Saver, thread: &str) -> Option<CheckpointTuple> {
    saver.get_tuple(&key(thread, ""), None).await.expect("a read")
}

/// A call on thread `t`, which has two checkpoints, is dropped at its first wait, at its second, and
/// so on until it is over before it can be dropped. `allowed` are the numbers of rows of the three
/// tables, before it and after it.
async fn drop_everywhere<T>(
    saver: &PostgresSaver,
    client: &Client,
    allowed: &[&str],
    call: impl Fn(&PostgresSaver) -> SaverResult<T>,
) {
    let mut n = 0;
    loop {
        saver.delete_thread("t").await.unwrap();
        saver.delete_thread("u").await.unwrap();
        for k in 0..2 {
            saver.put(put("t", k)).await.unwrap();
            saver.put_writes(writes("t", k)).await.unwrap();
        }
        saver.put(put_anywhere(1)).await.unwrap();
        let result = poll_and_drop(call(saver), n).await;
        // Over the only connection there is: what was sent before comes first.
        let after = get(saver, "t").await;
        let counts = "SELECT concat_ws(' ', (SELECT count(*) FROM checkpoints), \
             (SELECT count(*) FROM checkpoint_blobs), (SELECT count(*) FROM checkpoint_writes))";
        let counts = rows(client, counts).await.remove(0);
        assert!(allowed.contains(&&*counts), "dropped at {n}: {counts}");
        let open = "SELECT 1 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' \
             AND datname = current_database()";
        assert_eq!(rows(client, open).await, [""; 0], "dropped at {n}");
        if let Some(tuple) = after {
            assert_eq!(tuple.checkpoint, checkpoint(tuple.metadata.step as u32));
        }
        if let Some(result) = result {
            result.map(drop).expect("the call");
            break;
        }
        n += 1;
        assert!(n < 1000, "it never ends");
    }
    assert!(n > 1, "it was never dropped while it waited");
}

#[test]
fn a_call_may_be_dropped_wherever_it_waits() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("dropped");
        let client = connect(&url).await;
        let options = PostgresOptions { prepared_statements: true, ..one_connection() };
        let saver = open(&url, options).await;
        drop_everywhere(&saver, &client, &["2 4 10", "3 6 10"], |s| s.put(put_anywhere(2))).await;
        drop_everywhere(&saver, &client, &["2 4 10", "2 4 15"], |s| s.put_writes(writes("t", 2)))
            .await;
        let saver = open(&url, one_connection()).await;
        drop_everywhere(&saver, &client, &["2 4 10", "3 6 10"], |s| s.put(put("t", 2))).await;
        drop_everywhere(&saver, &client, &["2 4 10", "2 4 15"], |s| s.put_writes(writes("t", 2)))
            .await;
        drop_everywhere(&saver, &client, &["2 4 10", "0 0 0"], |s| s.delete_thread("t")).await;
        drop_everywhere(&saver, &client, &["2 4 10", "4 8 20"], |s| s.copy_thread("t", "u")).await;
        let list = |s: &PostgresSaver| s.list("t", None, ListFilter::default());
        drop_everywhere(&saver, &client, &["2 4 10"], list).await;
        // In whole steps: rows first, then the values that nobody holds any more.
        let steps = ["2 4 10", "1 4 5", "1 2 5"];
        drop_everywhere(&saver, &client, &steps, |s| s.prune(&["t".into()], Keep::Latest)).await;
    });
}

/// While the connection is still being made, and while it is waited for.
#[test]
fn a_call_may_be_dropped_before_it_has_a_connection() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("dropped-early");
        for n in 0..6 {
            let saver = open(&url, one_connection()).await;
            poll_and_drop(saver.put(put("t", 0)), n).await;
            saver.put(put("t", 0)).await.unwrap();
            let waiting: Vec<_> = (0..4).map(|_| saver.put(put("t", 0))).collect();
            let waiting = waiting.into_iter().map(|call| poll_and_drop(call, n));
            join_all(waiting).await;
            assert_eq!(get(&*saver, "t").await.unwrap().checkpoint, checkpoint(0));
            saver.delete_thread("t").await.unwrap();
        }
    });
}

/// Whoever does not get a connection in time is told so.
#[test]
fn a_full_pool_is_waited_for_and_not_for_ever() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("full");
        let limit = Duration::from_secs(1);
        let saver = open(&url, PostgresOptions { acquire_limit: limit, ..one_connection() }).await;
        let client = connect(&url).await;
        saver.put(put("t", 0)).await.expect("a connection is made");
        client.batch_execute("BEGIN; LOCK TABLE checkpoints").await.unwrap();
        let first = saver.put(put("t", 0));
        let second = saver.put(put("u", 0));
        let (first, second) = futures::join!(
            async { tokio::time::timeout(Duration::from_secs(20), first).await.expect("it ends") },
            async {
                let refused = second.await.unwrap_err().to_string();
                client.batch_execute("COMMIT").await.unwrap();
                refused
            }
        );
        first.unwrap();
        assert!(second.contains("no connection became free"), "{second}");
    });
}

/// A server that says nothing any more is given up, and its connection with it.
#[test]
fn a_silent_server_is_not_waited_for_for_ever() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("silent");
        let answer_limit = Duration::from_secs(2);
        let saver = open(&url, PostgresOptions { answer_limit, ..one_connection() }).await;
        let client = connect(&url).await;
        client.batch_execute("BEGIN; LOCK TABLE checkpoints").await.unwrap();
        let problem = saver.put(put("t", 0)).await.unwrap_err().to_string();
        assert!(problem.contains("no answer within 2s"), "{problem}");
        assert!(problem.contains("unknown"), "{problem}");
        client.batch_execute("COMMIT").await.unwrap();
        saver.put(put("t", 0)).await.expect("on another connection");
    });
}

/// What the server still does for somebody who went is stopped, and is in nobody's way.
#[test]
fn a_dropped_call_is_stopped_at_the_server() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("left");
        let answer_limit = Duration::from_secs(2);
        let saver = open(&url, PostgresOptions { answer_limit, ..one_connection() }).await;
        saver.put(put("other", 0)).await.unwrap();
        let client = connect(&url).await;
        let lock = xxhash_rust::xxh3::xxh3_64(b"durasim thread t") as i64;
        client.batch_execute(&format!("SELECT pg_advisory_lock({lock})")).await.unwrap();
        let deletion = tokio::time::timeout(Duration::from_millis(100), saver.delete_thread("t"));
        deletion.await.expect_err("it waits for the lock");
        assert!(get(&*saver, "other").await.is_some());
        saver.put(put("other", 1)).await.unwrap();
        let waiting = "SELECT 1 FROM pg_locks l INNER JOIN pg_database d ON d.oid = l.database \
             WHERE NOT granted AND datname = current_database()";
        assert_eq!(rows(&client, waiting).await, [""; 0]);
    });
}

#[test]
fn calls_that_are_given_up_leave_no_connections_behind() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("given-up");
        let answer_limit = Duration::from_millis(200);
        let saver = open(&url, PostgresOptions { answer_limit, ..one_connection() }).await;
        let client = connect(&url).await;
        client.batch_execute("BEGIN; LOCK TABLE checkpoints").await.unwrap();
        let watch = connect(&url).await;
        let others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() \
             AND wait_event_type = 'Lock'";
        for _ in 0..4 {
            let problem = saver.get_tuple(&key("t", ""), None).await.unwrap_err().to_string();
            assert!(problem.contains("no answer within 200ms"), "{problem}");
            assert!(rows(&watch, others).await.len() <= 1);
        }
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(get(&*saver, "t").await, None);
    });
}

#[test]
fn calls_outlive_a_restart_of_the_server() {
    // Of its own, as the others would not like it.
    let Some(server) = durasim_cluster::Cluster::private_for_test() else { return };
    block_on(async {
        let url = server.database("restart");
        let patient = Duration::from_secs(60);
        let patient = PostgresOptions { outage_limit: patient, ..PostgresOptions::default() };
        let saver = open(&url, patient).await;
        let writing = async {
            for n in 0..60 {
                saver.put(put("t", n)).await.unwrap();
                saver.put_writes(writes("t", n)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let server = Arc::new(server);
        let restarts = server.clone();
        let restarting = tokio::task::spawn_blocking(move || {
            for crash in [false, true] {
                std::thread::sleep(Duration::from_millis(150));
                if crash { restarts.crash() } else { restarts.restart() }.unwrap();
            }
        });
        let (_, restarted) = futures::join!(writing, restarting);
        restarted.unwrap();
        let all = saver.list("t", None, ListFilter::default()).await.unwrap();
        assert_eq!(all.len(), 60);
        assert!(all.iter().all(|tuple| tuple.writes.len() == 5));

        // And it is told when the server stays away.
        let options = PostgresOptions {
            outage_limit: Duration::from_millis(300),
            ..PostgresOptions::default()
        };
        let impatient = open(&url, options).await;
        let stop = server.clone();
        tokio::task::spawn_blocking(move || stop.stop()).await.unwrap().unwrap();
        let problem = impatient.put(put("t", 60)).await.unwrap_err().to_string();
        assert!(problem.contains("cannot reach postgres at 127.0.0.1:"), "{problem}");
        let go_on = server.clone();
        tokio::task::spawn_blocking(move || go_on.go_on()).await.unwrap().unwrap();
        impatient.put(put("t", 60)).await.unwrap();
    });
}

/// A reader never meets a checkpoint without its values, nor one of two claims that both held.
#[test]
fn many_may_write_and_read_at_once() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("many");
        let saver = open(&url, PostgresOptions::default()).await;
        let other = open(&url, PostgresOptions::default()).await;
        let writers = (0..8).map(|t| {
            let saver = if t % 2 == 0 { saver.clone() } else { other.clone() };
            async move {
                for n in 0..20 {
                    let (put, writes) = (put(&t.to_string(), n), writes(&t.to_string(), n));
                    let (put, written) = futures::join!(saver.put(put), saver.put_writes(writes));
                    put.unwrap();
                    written.unwrap();
                }
            }
        });
        let readers = (0..8).map(|t: u32| {
            let saver = other.clone();
            async move {
                loop {
                    if let Some(tuple) = get(&*saver, &t.to_string()).await {
                        let step = tuple.metadata.step as u32;
                        assert_eq!(tuple.checkpoint, checkpoint(step));
                        assert!([0, 5].contains(&tuple.writes.len()));
                        if step == 19 {
                            break;
                        }
                    }
                }
            }
        });
        futures::join!(join_all(writers), join_all(readers));
    });
}

/// Of several runs that go on from one head, one wins.
#[test]
fn one_of_many_rivals_wins() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("rivals");
        let saver = open(&url, PostgresOptions::default()).await;
        let other = open(&url, PostgresOptions::default()).await;
        saver.put(put("t", 0)).await.unwrap();
        for round in 0..10 {
            let head = get(&*saver, "t").await.unwrap().checkpoint.id;
            let rivals = (0..6).map(|n| {
                let mut rival = put("t", 10 * round + n + 1);
                rival.parent = Some(head.clone());
                if n % 2 == 0 { saver.put(rival) } else { other.put(rival) }
            });
            let results = join_all(rivals).await;
            assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
            let refused = results.into_iter().filter_map(Result::err);
            assert!(refused.into_iter().all(|e| matches!(e, SaverError::NotHead { .. })));
        }
        assert_eq!(saver.list("t", None, ListFilter::default()).await.unwrap().len(), 11);
    });
}

/// Whoever writes while a thread is deleted is refused, or what it wrote goes as well.
#[test]
fn a_deletion_leaves_nothing_of_those_who_write_meanwhile() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("deletion");
        let saver = open(&url, PostgresOptions::default()).await;
        let deleting = open(&url, PostgresOptions::default()).await;
        for round in 0..30u32 {
            // The claim of a run that began before the deletion.
            let claim = Claim { deletions: Some(0), parent_is_head: false };
            let thread = format!("t{round}");
            let writers = (0..6u32).map(|n| {
                let put = Put { claim: claim.clone(), ..put(&thread, n) };
                let writes = PutWrites { claim: claim.clone(), ..writes(&thread, n) };
                let saver = saver.clone();
                async move {
                    tokio::time::sleep(Duration::from_micros(300 * u64::from(n))).await;
                    (saver.put(put).await, saver.put_writes(writes).await)
                }
            });
            let delete = async {
                tokio::time::sleep(Duration::from_micros(700)).await;
                deleting.delete_thread(&thread).await.unwrap();
            };
            let (results, ()) = futures::join!(join_all(writers), delete);
            for result in results.into_iter().flat_map(|(put, writes)| [put, writes]) {
                assert!(matches!(result, Ok(()) | Err(SaverError::Deleted { .. })), "{result:?}");
            }
        }
        let client = connect(&url).await;
        for table in ["checkpoints", "checkpoint_blobs", "checkpoint_writes"] {
            let left = rows(&client, &format!("SELECT thread_id FROM {table}")).await;
            let left: BTreeSet<_> = left.into_iter().collect();
            assert_eq!(left, BTreeSet::new(), "{table}");
        }
    });
}

/// Only values that are new are encoded: one that cannot be is no trouble if it is not.
#[test]
fn what_is_not_new_is_not_even_encoded() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let saver = open(&server.database("untouched"), PostgresOptions::default()).await;
        let mut deep = Value::Nil;
        for _ in 0..300 {
            deep = Value::Array(vec![deep]);
        }
        let mut first = put("t", 0);
        first.checkpoint.channel_values.insert("steps".into(), shared(deep));
        let refused = saver.put(first.clone()).await.unwrap_err();
        assert!(matches!(refused, SaverError::Unstorable { channel, .. } if channel == "steps"));
        saver.put(Put { new_versions: ChannelVersions::default(), ..first }).await.unwrap();
    });
}
