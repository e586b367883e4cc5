//! A saver that mints versions and ids of its own.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::sync::Arc;

use checkpoint_support::block_on;
use durasim_runtime::checkpoint::id::Ids;
use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{
    Keep, Landing, ListFilter, Put, PutWrites, Saver, SaverResult,
};
use durasim_runtime::checkpoint::version::version_number;
use durasim_runtime::checkpoint::{CheckpointTuple, ThreadKey};
use durasim_runtime::doors::Entropy;
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{
    Doors, Durability, END, NodeError, Profile, START, State, StateGraph, Update, Value, value,
};
use futures::future::BoxFuture;

/// Stores like the memory saver. Its versions have no chance in them, and its ids one node.
struct OfOneNode(MemorySaver);

const NODE: &str = "0000000000aa";

impl Saver for OfOneNode {
    fn next_version(&self, highest: Option<&str>, _entropy: &dyn Entropy) -> Arc<str> {
        format!("{:032}.own", highest.map_or(0, version_number) + 1).into()
    }

    fn next_id(&self, ids: &Ids, step: i64) -> Arc<str> {
        let id = ids.mint(step);
        format!("{}{NODE}", &id[..id.len() - NODE.len()]).into()
    }

    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        self.0.get_tuple(key, id)
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        self.0.list(thread, namespace, filter)
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        self.0.put(put)
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        self.0.put_writes(put)
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.0.delete_thread(thread)
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        self.0.copy_thread(from, to)
    }

    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        self.0.prune(threads, keep)
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        self.0.delete_for_runs(runs)
    }
}

/// A saver around another one has its versions and ids.
struct Around(OfOneNode);

impl Layer for Around {
    fn inner(&self) -> &dyn Saver {
        &self.0
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        self.0.submit_put(put)
    }
}

#[test]
fn what_is_stored_has_the_savers_versions_and_ids() {
    let stored = block_on(async {
        let saver = Arc::new(Around(OfOneNode(MemorySaver::new(&Doors::production()))));
        let graph = StateGraph::new("line")
            .key("n")
            .node("one", |_: State, _| async { Ok::<_, NodeError>(Update::new().set("n", 1)) })
            .edge(START, "one")
            .edge("one", END);
        let options = Profile::Safe.options();
        let graph = graph.compile(Some(saver.clone()), &Doors::production(), options).unwrap();
        for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
            let config = RunConfig::new("t").durability(durability);
            graph.invoke(Input::New(value::map([("n", Value::from(0))])), config).await.unwrap();
        }
        saver.list("t", None, ListFilter::default()).await.unwrap()
    });
    // Of the input, the entry and the node, at exit of the node alone; newest first.
    assert_eq!(stored.len(), 3 + 3 + 1);
    assert!(stored.is_sorted_by(|newer, older| newer.checkpoint.id > older.checkpoint.id));
    for tuple in &stored {
        assert!(tuple.checkpoint.id.ends_with(NODE), "{}", tuple.checkpoint.id);
        let versions = &tuple.checkpoint.channel_versions;
        assert!(versions.iter().all(|(_, version)| version.ends_with(".own")), "{versions:?}");
    }
    let highest = stored[0].checkpoint.channel_versions.values().max().unwrap();
    // Each run makes three.
    assert_eq!(version_number(highest), 9);
}
