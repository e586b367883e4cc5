//! Writes that wait for one thread go to PostgreSQL together, and fail alone.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::sync::Arc;

use checkpoint_support::{block_on, checkpoint, id, key, metadata, shared};
use durasim_runtime::checkpoint::Source;
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_runtime::checkpoint::saver::{Claim, Fate, Put, PutWrites, Saver, SaverError};
use durasim_runtime::{Doors, checkpoint::saver::Landing};
use futures::future::join_all;
use postgres_support::{Server, connect, rows};

fn put(thread: &str, n: u32, fate: &Fate) -> Put {
    let parent = n.checked_sub(1).map(id);
    let metadata = metadata(Source::Loop, n.into());
    let put = Put::new(&key(thread, ""), parent.as_deref(), checkpoint(n), metadata);
    Put { fate: fate.clone(), ..put }
}

fn writes(thread: &str, n: u32, fate: &Fate) -> PutWrites {
    let writes = vec![("steps".into(), shared("a")), ("steps".into(), shared("b"))];
    let writes = PutWrites::new(&key(thread, ""), &id(n), "task", "", writes);
    PutWrites { fate: fate.clone(), ..writes }
}

async fn open(url: &str) -> Arc<PostgresSaver> {
    PostgresSaver::open(url, &Doors::production()).await.expect("the database opens")
}

async fn ends(landings: Vec<Landing>) -> Vec<Result<(), SaverError>> {
    join_all(landings.into_iter().map(Landing::end)).await
}

/// The ids of the transactions that stored the rows of a thread: the server's own word for it.
const TRANSACTIONS: &str = "SELECT count(DISTINCT x) || ' of ' || count(*) FROM (
    SELECT xmin::text AS x FROM checkpoints UNION ALL SELECT xmin::text FROM checkpoint_writes) y";

#[test]
fn a_step_is_one_transaction() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("lanes");
        let (saver, client, fate) = (open(&url).await, connect(&url).await, Fate::shared());
        let mut landings = Vec::new();
        for n in 0..3 {
            landings.push(saver.submit_put(put("t", n, &fate)).await);
            landings.push(saver.submit_writes(writes("t", n, &fate)).await);
        }
        assert!(ends(landings).await.iter().all(Result::is_ok));
        assert_eq!(rows(&client, TRANSACTIONS).await, ["1 of 9"]);
        // Nobody's writes wait for another thread's.
        let (a, b) = (saver.put(put("u", 0, &fate)), saver.put(put("v", 0, &fate)));
        assert!(join_all([a, b]).await.iter().all(Result::is_ok));
        assert_eq!(rows(&client, TRANSACTIONS).await, ["3 of 11"]);
    });
}

#[test]
fn what_was_deleted_is_refused_alone() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("lanes_deleted");
        let (saver, client) = (open(&url).await, connect(&url).await);
        saver.delete_thread("t").await.unwrap();
        let (late, other) = (Fate::shared(), Fate::shared());
        let claim = Claim { deletions: Some(0), parent_is_head: false };
        let landings = vec![
            saver.submit_writes(writes("t", 0, &other)).await,
            saver.submit_put(Put { claim, ..put("t", 1, &late) }).await,
            saver.submit_put(put("t", 2, &late)).await,
            saver.submit_put(put("t", 3, &other)).await,
        ];
        let ends = ends(landings).await;
        assert!(matches!(ends[0], Ok(())));
        assert!(matches!(ends[1], Err(SaverError::Deleted { .. })), "{:?}", ends[1]);
        assert!(matches!(ends[2], Err(SaverError::Unfounded { .. })), "{:?}", ends[2]);
        assert!(matches!(ends[3], Ok(())));
        let stored = rows(&client, "SELECT checkpoint_id FROM checkpoints").await;
        assert_eq!(stored, [id(3)]);
    });
}

/// The name of a thread is a value, whatever is in it.
#[test]
fn a_deleted_thread_stays_deleted_under_any_name() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let saver = open(&server.database("lanes_names")).await;
        let drop_all = "'; DROP TABLE checkpoints CASCADE; SELECT '";
        for name in ["it's", "back\\slash", "\\'", drop_all, "$1", "\"q\"", "Grüße \u{1F600}", "''"]
        {
            let late = Claim { deletions: Some(0), parent_is_head: false };
            let with_claim = |n| Put { claim: late.clone(), ..put(name, n, &Fate::default()) };
            let writes = PutWrites { claim: late.clone(), ..writes(name, 3, &Fate::default()) };
            saver.put(with_claim(3)).await.expect("there was no deletion");
            saver.put_writes(writes.clone()).await.expect("there was no deletion");
            saver.delete_thread(name).await.unwrap();
            let refused = saver.put(with_claim(4)).await;
            assert!(matches!(refused, Err(SaverError::Deleted { .. })), "{name}: {refused:?}");
            let refused = saver.put_writes(writes).await;
            assert!(matches!(refused, Err(SaverError::Deleted { .. })), "{name}: {refused:?}");
            assert!(saver.get_tuple(&key(name, ""), None).await.unwrap().is_none(), "{name}");
            saver.put(put(name, 5, &Fate::default())).await.expect("it claims nothing");
        }
        let nul = saver.put(Put {
            claim: Claim { deletions: Some(0), parent_is_head: false },
            ..put("a\0b", 1, &Fate::default())
        });
        let refused = nul.await.unwrap_err().to_string();
        assert!(refused.contains("U+0000"), "{refused}");
    });
}

/// What the server refuses fails, and the checkpoint behind it with the same fate; the others land.
#[test]
fn a_failure_does_not_take_others_with_it() {
    let Some(server) = Server::get() else { return };
    block_on(async {
        let url = server.database("lanes_failed");
        let (saver, client) = (open(&url).await, connect(&url).await);
        let refuse = "ALTER TABLE checkpoint_writes ADD CHECK (thread_id <> 't')";
        client.batch_execute(refuse).await.unwrap();
        let (lost, other) = (Fate::shared(), Fate::shared());
        let landings = vec![
            saver.submit_put(put("t", 0, &lost)).await,
            saver.submit_writes(writes("t", 0, &lost)).await,
            saver.submit_put(put("t", 1, &lost)).await,
            saver.submit_put(put("t", 2, &other)).await,
        ];
        let ends = ends(landings).await;
        assert!(matches!(ends[0], Ok(())));
        let refused = ends[1].as_ref().unwrap_err().to_string();
        assert!(refused.contains("check constraint"), "{refused}");
        assert!(matches!(ends[2], Err(SaverError::Unfounded { .. })), "{:?}", ends[2]);
        assert!(matches!(ends[3], Ok(())));
        let stored = "SELECT checkpoint_id FROM checkpoints ORDER BY 1";
        assert_eq!(rows(&client, stored).await, [id(0), id(2)]);
    });
}
