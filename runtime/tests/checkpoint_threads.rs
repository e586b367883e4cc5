//! What savers do to whole threads, and what they refuse to writers who come too late.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::sync::Arc;

use checkpoint_support::{
    TestFile, block_on, checkpoint, doors_with_log, id, key, metadata, shared,
};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::postgres::{PostgresOptions, PostgresSaver};
use durasim_runtime::checkpoint::saver::{
    Claim, Keep, LateWrites, ListFilter, Put, PutWrites, Saver, SaverError,
};
use durasim_runtime::checkpoint::sqlite::{SqliteOptions, SqliteSaver};
use durasim_runtime::checkpoint::{CheckpointTuple, Source};
use durasim_runtime::value::Value;
use postgres_support::Server;
use serde_json::json;
use tokio::join;

/// Runs `check` with a fresh saver of each kind.
fn each<F: Future<Output = ()>>(
    test: &str,
    late_writes: LateWrites,
    check: impl Fn(Arc<dyn Saver>) -> F,
) {
    let (doors, log) = doors_with_log();
    block_on(check(Arc::new(MemorySaver::with(&doors, late_writes))));
    block_on(async {
        let file = TestFile::new(test);
        let options = SqliteOptions { late_writes, ..SqliteOptions::default() };
        let saver = SqliteSaver::open_with(file.path(), &doors, options).await;
        check(saver.expect("the file opens")).await;
    });
    if let Some(server) = Server::get() {
        block_on(async {
            let options = PostgresOptions { late_writes, ..PostgresOptions::default() };
            let url = server.database(test);
            let saver = PostgresSaver::open_with(&url, &doors, options).await;
            check(saver.expect("the database opens")).await;
        });
    }
    assert_eq!(log.inside(), 0, "every point was left");
}

/// The `n`-th checkpoint of a line of them.
fn nth(thread: &str, namespace: &str, n: u32) -> Put {
    let parent = n.checked_sub(1).map(id);
    Put::new(
        &key(thread, namespace),
        parent.as_deref(),
        checkpoint(n),
        metadata(Source::Loop, n.into()),
    )
}

fn rows(thread: &str, namespace: &str, n: u32) -> PutWrites {
    let writes = vec![("steps".into(), shared("a"))];
    PutWrites::new(&key(thread, namespace), &id(n), "task", "", writes)
}

/// A thread of `n` checkpoints, each with a pending write.
async fn fill(saver: &dyn Saver, thread: &str, namespace: &str, n: u32) {
    for n in 0..n {
        saver.put(nth(thread, namespace, n)).await.expect("a put");
        saver.put_writes(rows(thread, namespace, n)).await.expect("writes");
    }
}

async fn all(saver: &dyn Saver, thread: &str) -> Vec<CheckpointTuple> {
    saver.list(thread, None, ListFilter::default()).await.expect("a listing")
}

/// Namespace and step of every checkpoint, newest first, with the number of its pending writes.
async fn short(saver: &dyn Saver, thread: &str) -> Vec<String> {
    let tuples = all(saver, thread).await;
    let line = |tuple: &CheckpointTuple| {
        format!("{}{} +{}", tuple.key.namespace, tuple.metadata.step, tuple.writes.len())
    };
    tuples.iter().map(line).collect()
}

#[test]
fn a_copy_has_everything_under_the_same_ids() {
    each("copy", LateWrites::Refused, |saver| async move {
        fill(&*saver, "t", "", 3).await;
        fill(&*saver, "t", "sub:1", 2).await;
        fill(&*saver, "other", "", 1).await;
        saver.copy_thread("t", "u").await.unwrap();
        let mut copy = all(&*saver, "u").await;
        copy.iter_mut().for_each(|tuple| tuple.key.thread = "t".into());
        assert_eq!(copy, all(&*saver, "t").await);

        let occupied = saver.copy_thread("t", "other").await.unwrap_err();
        assert!(matches!(&occupied, SaverError::Occupied { thread } if thread == "other"));
        assert_eq!(short(&*saver, "other").await, ["0 +1"]);
        saver.copy_thread("no such thread", "v").await.unwrap();
        assert_eq!(all(&*saver, "v").await, []);
    });
}

#[test]
fn pruning_keeps_the_newest_of_each_namespace() {
    each("prune", LateWrites::Refused, |saver| async move {
        for thread in ["t", "u", "v", "w"] {
            fill(&*saver, thread, "", 3).await;
        }
        fill(&*saver, "t", "sub:1", 2).await;
        // Its checkpoint is still on the way.
        saver.put_writes(rows("t", "", 3)).await.unwrap();
        saver.prune(&["t".into(), "u".into(), "no such".into()], Keep::Latest).await.unwrap();
        assert_eq!(short(&*saver, "t").await, ["2 +1", "sub:11 +1"]);
        assert_eq!(short(&*saver, "u").await, ["2 +1"]);
        assert_eq!(short(&*saver, "v").await, ["2 +1", "1 +1", "0 +1"]);
        saver.put(nth("t", "", 3)).await.unwrap();
        assert_eq!(short(&*saver, "t").await[0], "3 +1");
        saver.prune(&["v".into(), "w".into()], Keep::Nothing).await.unwrap();
        assert_eq!(short(&*saver, "v").await.len() + short(&*saver, "w").await.len(), 0);
        saver.prune(&[], Keep::Nothing).await.unwrap();
    });
}

/// A refused checkpoint leaves nothing, not even the name of a thread.
#[test]
fn a_refusal_leaves_nothing() {
    each("refusal", LateWrites::Refused, |saver| async move {
        let claim = Claim { deletions: None, parent_is_head: true };
        let refused = saver.put(Put { claim, ..nth("to", "", 1) }).await;
        assert!(matches!(refused, Err(SaverError::NotHead { .. })), "{refused:?}");
        fill(&*saver, "from", "", 1).await;
        saver.copy_thread("from", "to").await.expect("there is nothing there");
    });
}

#[test]
fn writes_of_no_rows_leave_nothing() {
    each("no-rows", LateWrites::Refused, |saver| async move {
        saver.put_writes(PutWrites { writes: vec![], ..rows("to", "", 0) }).await.unwrap();
        fill(&*saver, "from", "", 1).await;
        saver.copy_thread("from", "to").await.expect("there is nothing there");
    });
}

/// The conditions of `BaseCheckpointSaver.prune` (langgraph-checkpoint 4.3.2): every ancestor up to
/// the nearest that holds the channel, for each channel.
#[test]
fn pruning_keeps_what_delta_channels_are_rebuilt_from() {
    each("prune-delta", LateWrites::Refused, |saver| async move {
        for n in 0..6 {
            let mut put = nth("t", "", n);
            let counters = json!({ "log": [n, n], "notes": [n, n] });
            put.metadata.extra.insert("counters_since_delta_snapshot".to_owned(), counters);
            for (channel, holder) in [("log", 3), ("notes", 2)] {
                if n == holder {
                    put.checkpoint.channel_values.insert(channel.into(), shared("whole"));
                }
            }
            saver.put(put).await.unwrap();
            saver.put_writes(rows("t", "", n)).await.unwrap();
        }
        let channels = ["log".into(), "notes".into()];
        let key = key("t", "");
        let before = saver.get_delta_channel_history(&key, None, &channels).await.unwrap();
        saver.prune(&["t".into()], Keep::Latest).await.unwrap();
        assert_eq!(short(&*saver, "t").await, ["5 +1", "4 +1", "3 +1", "2 +1"]);
        let after = saver.get_delta_channel_history(&key, None, &channels).await.unwrap();
        assert_eq!(after, before);
    });
}

/// The steps since a channel's last snapshot are counted also where it was never written.
#[test]
fn a_delta_channel_that_was_never_written_keeps_nothing() {
    each("prune-unwritten", LateWrites::Refused, |saver| async move {
        for n in 0..4 {
            let mut put = nth("t", "", n);
            let counters = json!({ "log": [0, n + 1] });
            put.metadata.extra.insert("counters_since_delta_snapshot".to_owned(), counters);
            saver.put(put).await.unwrap();
        }
        saver.prune(&["t".into()], Keep::Latest).await.unwrap();
        assert_eq!(short(&*saver, "t").await, ["3 +0"]);
    });
}

/// The metadata of an update from outside does not say which channels are delta channels. One with a
/// value is none, wherever the value stands.
#[test]
fn pruning_finds_the_values_of_a_head_that_no_step_made() {
    for source in [Source::Input, Source::Update, Source::Fork] {
        each(
            &format!("prune-{source:?}").to_lowercase(),
            LateWrites::Refused,
            move |saver| async move {
                for n in 0..4 {
                    saver.put(from_outside(n, source)).await.unwrap();
                }
                saver.prune(&["t".into()], Keep::Latest).await.unwrap();
                assert_eq!(short(&*saver, "t").await, ["3 +0"]);
            },
        );
    }
}

/// A snapshot counts where it was made, also if later checkpoints have its version.
#[test]
fn pruning_keeps_the_snapshot_of_a_head_that_no_step_made() {
    each("prune-snapshot", LateWrites::Refused, |saver| async move {
        for n in 0..4 {
            let mut put = from_outside(n, Source::Update);
            put.checkpoint.channel_versions.insert("log".into(), format!("{:032}.0.5", 1).into());
            if n == 1 {
                put.checkpoint
                    .channel_values
                    .insert("log".into(), shared(Value::Ext(7, vec![0x90])));
            }
            put.new_versions = put.checkpoint.channel_versions.clone();
            saver.put(put).await.unwrap();
        }
        saver.prune(&["t".into()], Keep::Latest).await.unwrap();
        assert_eq!(short(&*saver, "t").await, ["3 +0", "2 +0", "1 +0"]);
    });
}

/// Each channel with a value that is no scalar.
fn from_outside(n: u32, source: Source) -> Put {
    let mut put = nth("t", "", n);
    put.metadata.source = source;
    let names = put.checkpoint.channel_versions.keys();
    put.checkpoint.channel_values =
        names.map(|name| (name.clone(), shared(vec![Value::Nil]))).collect();
    put
}

#[test]
fn runs_are_removed_from_every_thread() {
    each("runs", LateWrites::Refused, |saver| async move {
        for (thread, namespace) in [("t", ""), ("t", "sub:1"), ("u", "")] {
            for n in 0..4 {
                let mut put = nth(thread, namespace, n);
                // One has none, and one has a number.
                let run = [json!("r1"), json!("r2"), json!(null), json!(1)];
                put.metadata.extra.insert("run_id".to_owned(), run[n as usize].clone());
                saver.put(put).await.unwrap();
                saver.put_writes(rows(thread, namespace, n)).await.unwrap();
            }
        }
        saver.delete_for_runs(&[]).await.unwrap();
        saver.delete_for_runs(&["1".into(), "null".into(), "r3".into()]).await.unwrap();
        assert_eq!(all(&*saver, "t").await.len(), 8);
        saver.delete_for_runs(&["r1".into(), "r3".into()]).await.unwrap();
        assert_eq!(short(&*saver, "u").await, ["3 +1", "2 +1", "1 +1"]);
        assert_eq!(all(&*saver, "t").await.len(), 6);
        // Its writes went with it.
        saver.put(nth("u", "", 0)).await.unwrap();
        assert_eq!(short(&*saver, "u").await[3], "0 +0");
    });
}

/// The claim of one who looked before any deletion.
fn early() -> Claim {
    Claim { deletions: Some(0), parent_is_head: false }
}

/// Of one who looks now.
async fn fresh(saver: &dyn Saver, thread: &str) -> Claim {
    let look = saver.look(&key(thread, ""), None).await.expect("a look");
    Claim { deletions: look.deletions, parent_is_head: false }
}

async fn late_put(saver: &dyn Saver, claim: &Claim) -> [Result<(), SaverError>; 2] {
    let put = saver.put(Put { claim: claim.clone(), ..nth("t", "", 2) }).await;
    [put, saver.put_writes(PutWrites { claim: claim.clone(), ..rows("t", "", 2) }).await]
}

#[test]
fn a_late_write_does_not_bring_a_deleted_thread_back() {
    each("late", LateWrites::Refused, |saver| async move {
        fill(&*saver, "t", "", 2).await;
        assert!(late_put(&*saver, &early()).await.iter().all(Result::is_ok));
        saver.delete_thread("t").await.unwrap();
        for result in late_put(&*saver, &early()).await {
            assert!(matches!(result, Err(SaverError::Deleted { thread }) if thread == "t"));
        }
        assert_eq!(all(&*saver, "t").await, []);
        // Who comes afterwards may write, and who claims nothing.
        let fresh = fresh(&*saver, "t").await;
        assert!(late_put(&*saver, &fresh).await.iter().all(Result::is_ok));
        assert_eq!(short(&*saver, "t").await, ["2 +1"]);
        assert!(late_put(&*saver, &Claim::default()).await.iter().all(Result::is_ok));
        // Pruning everything is a deletion as well, also of a thread that has no rows yet.
        saver.prune(&["u".into()], Keep::Nothing).await.unwrap();
        let late = saver.put(Put { claim: early(), ..nth("u", "", 0) }).await;
        assert!(matches!(late, Err(SaverError::Deleted { .. })));
    });
    each("late-lands", LateWrites::Land, |saver| async move {
        fill(&*saver, "t", "", 2).await;
        saver.delete_thread("t").await.unwrap();
        assert!(late_put(&*saver, &early()).await.iter().all(Result::is_ok));
        assert_eq!(short(&*saver, "t").await, ["2 +1"]);
    });
}

/// Each connection learns by itself that a file has deletions now.
#[test]
fn a_deletion_by_another_saver_of_the_file_counts() {
    let (doors, _) = doors_with_log();
    block_on(async {
        let file = TestFile::new("late-elsewhere");
        let options =
            SqliteOptions { late_writes: LateWrites::Refused, ..SqliteOptions::default() };
        let open = || SqliteSaver::open_with(file.path(), &doors, options);
        let (writer, other) = (open().await.unwrap(), open().await.unwrap());
        fill(&*writer, "t", "", 2).await;
        assert!(late_put(&*writer, &early()).await.iter().all(Result::is_ok));
        other.delete_thread("t").await.unwrap();
        for saver in [writer, other, open().await.unwrap()] {
            for result in late_put(&*saver, &early()).await {
                assert!(matches!(result, Err(SaverError::Deleted { thread }) if thread == "t"));
            }
        }
    });
}

/// A file's writes keep their order, also within one commit: what comes before the first deletion of a
/// file and what comes behind it.
#[test]
fn a_deletion_counts_within_its_own_commit() {
    let (doors, _) = doors_with_log();
    block_on(async {
        let file = TestFile::new("late-together");
        let options =
            SqliteOptions { late_writes: LateWrites::Refused, ..SqliteOptions::default() };
        let saver = SqliteSaver::open_with(file.path(), &doors, options).await.unwrap();
        fill(&*saver, "t", "", 2).await;
        let put = |thread| saver.put(Put { claim: early(), ..nth(thread, "", 2) });
        let (before, deleted, late) = join!(put("u"), saver.delete_thread("t"), put("t"));
        assert!(before.is_ok() && deleted.is_ok());
        assert!(matches!(late, Err(SaverError::Deleted { thread }) if thread == "t"));
        assert_eq!(all(&*saver, "t").await, []);
    });
}

/// Neither the clock of the one who deletes nor the ids that went have a say.
#[test]
fn who_looks_after_a_deletion_may_write() {
    each("late-clock", LateWrites::Refused, |saver| async move {
        for future in
            ["3f1ec26b-0000-6000-8000-000000000000", "f47ac10b-58cc-4372-a567-0e02b2c3d479"]
        {
            let mut put = nth("t", "", 0);
            put.checkpoint.id = future.into();
            put.claim = fresh(&*saver, "t").await;
            let before = put.claim.clone();
            saver.put(put).await.unwrap();
            saver.delete_thread("t").await.unwrap();
            let late = saver.put(Put { claim: before, ..nth("t", "", 1) }).await;
            assert!(matches!(late, Err(SaverError::Deleted { .. })));
            let claim = fresh(&*saver, "t").await;
            saver.put(Put { claim, ..nth("t", "", 1) }).await.unwrap();
            assert_eq!(short(&*saver, "t").await, ["1 +0"]);
        }
    });
}

#[test]
fn a_checkpoint_whose_parent_is_not_the_head_is_refused_on_demand() {
    each("head", LateWrites::Refused, |saver| async move {
        let claim = Claim { parent_is_head: true, ..Claim::default() };
        for n in 0..3 {
            saver.put(Put { claim: claim.clone(), ..nth("t", "", n) }).await.unwrap();
        }
        // Again under its id.
        saver.put(Put { claim: claim.clone(), ..nth("t", "", 2) }).await.unwrap();
        // Another namespace has another head.
        saver.put(Put { claim: claim.clone(), ..nth("t", "sub:1", 0) }).await.unwrap();

        let fork = Put { parent: Some(id(1).into()), ..nth("t", "", 4) };
        let refused = saver.put(Put { claim: claim.clone(), ..fork.clone() }).await.unwrap_err();
        let SaverError::NotHead { parent, head, .. } = &refused else { panic!("{refused}") };
        assert_eq!((parent, head), (&Some(id(1)), &Some(id(2))));
        let root = Put { parent: None, claim: claim.clone(), ..nth("t", "", 4) };
        assert!(saver.put(root).await.unwrap_err().to_string().contains("(none)"));
        assert_eq!(all(&*saver, "t").await.len(), 4);
        saver.put(fork).await.unwrap();
        assert_eq!(all(&*saver, "t").await.len(), 5);
    });
}

/// When its answer was lost, it is put again, and others may have gone on from it meanwhile.
#[test]
fn a_checkpoint_that_others_went_on_from_is_stored() {
    each("landed", LateWrites::Refused, |saver| async move {
        let claim = Claim { parent_is_head: true, ..Claim::default() };
        let put = |n| Put { claim: claim.clone(), ..nth("t", "", n) };
        for n in 0..3 {
            saver.put(put(n)).await.unwrap();
        }
        saver.put(put(0)).await.expect("it has no parent, as before");
        saver.put(put(1)).await.expect("it is stored under its parent");
        let other = Put { parent: Some(id(7).into()), ..put(1) };
        let refused = saver.put(other).await;
        assert!(matches!(refused, Err(SaverError::NotHead { .. })), "{refused:?}");
        assert_eq!(short(&*saver, "t").await, ["2 +0", "1 +0", "0 +0"]);
    });
}
