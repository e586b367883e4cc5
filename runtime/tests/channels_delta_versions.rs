//! Snapshots of delta channels where values are stored by version, and what goes when a thread is
//! pruned: what a plain reducer of the same writes holds is what must come back, on every saver.
#![cfg(not(madsim))]

mod checkpoint_support;
mod postgres_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use checkpoint_support::{TestFile, block_on};
use durasim_runtime::channels::{ChannelSpec, DeltaReducer, Reducer};
use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::postgres::PostgresSaver;
use durasim_runtime::checkpoint::saver::{Keep, Landing, ListFilter, Put, Saver, SaverError};
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::pregel::{Input, RunConfig, StateUpdate};
use durasim_runtime::profile::{Options, WriteOrder};
use durasim_runtime::value::{self, Value};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeError, Profile, START, State, StateGraph, Update,
};
use futures::future::BoxFuture;
use postgres_support::Server;
use serde_json::json;

/// Runs `check` with a fresh saver of each kind.
fn each<F: Future<Output = ()>>(test: &str, check: impl Fn(Arc<dyn Saver>) -> F) {
    let doors = Doors::production();
    block_on(check(Arc::new(MemorySaver::new(&doors))));
    block_on(async {
        let file = TestFile::new(test);
        check(SqliteSaver::open(file.path(), &doors).await.expect("the file opens")).await;
    });
    if let Some(server) = Server::get() {
        block_on(async {
            let saver = PostgresSaver::open(&server.database(test), &doors).await;
            check(saver.expect("the database opens")).await;
        });
    }
}

/// `a`, `x`, `b` and `c` in a line; all but `x` add to a delta channel and to a plain reducer.
fn line(saver: Arc<dyn Saver>, options: Options) -> CompiledGraph {
    let adds = |name: &'static str| {
        move |_: State, _| async move {
            let list = vec![name];
            Ok::<_, NodeError>(Update::new().set("log", list.clone()).set("plain", list))
        }
    };
    StateGraph::new("line")
        .channel("log", ChannelSpec::Delta(DeltaReducer::append()))
        .reduced_key("plain", Reducer::append())
        .key("other")
        .node("a", adds("a"))
        .node("x", |_: State, _| async { Ok::<_, NodeError>(Update::new().set("other", "x")) })
        .node("b", adds("b"))
        .node("c", adds("c"))
        .sequence(&[START, "a", "x", "b", "c", END])
        .compile(Some(saver), &Doors::production(), options)
        .expect("a graph")
}

fn input() -> Input {
    Input::New(value::from_json(json!({ "log": ["in"], "plain": ["in"] })))
}

/// At every checkpoint of a thread; gives how many there are.
async fn check(graph: &CompiledGraph, thread: &str) -> usize {
    let history = graph.get_state_history(thread, ListFilter::default()).await.expect("a history");
    for state in &history {
        let empty = Value::Array(vec![]);
        let of = |key| state.values.value(key).unwrap_or(&empty);
        assert_eq!(of("log"), of("plain"), "{thread}: {:?}", state.metadata);
    }
    history.len()
}

/// The n-th put of a checkpoint fails.
struct FailsPut {
    inner: Arc<dyn Saver>,
    nth: usize,
    puts: AtomicUsize,
}

impl Layer for FailsPut {
    fn inner(&self) -> &dyn Saver {
        &*self.inner
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        if self.puts.fetch_add(1, Ordering::Relaxed) != self.nth {
            return self.inner.submit_put(put);
        }
        Landing::of_checkpoint(put.fate.clone(), async {
            Err(SaverError::Store("no space".to_owned()))
        })
    }
}

/// A run that does not order its writes goes on behind a put that failed.
#[test]
fn a_lost_checkpoint_makes_the_next_whole() {
    each("lost", |saver| async move {
        let options = Options { write_order: WriteOrder::Unordered, ..Profile::Safe.options() };
        for nth in 0..6 {
            let inner = saver.clone();
            let failing = FailsPut { inner, nth, puts: AtomicUsize::default() };
            let thread = format!("t{nth}");
            let config = RunConfig::new(&*thread).durability(Durability::Async);
            let end = line(Arc::new(failing), options).invoke(input(), config).await;
            assert!(end.is_err(), "the put {nth} failed");
            let stored = check(&line(saver.clone(), options), &thread).await;
            assert!(stored >= 4, "{stored} checkpoints");
        }
    });
}

/// Whatever made the head: a run, or an update from outside, of which some forget what a delta
/// channel has been through since its last snapshot.
#[test]
fn pruning_keeps_the_past_of_every_head() {
    each("pruned", |saver| async move {
        for profile in [Profile::Safe, Profile::Faithful] {
            for how in ["run", "c", END, "__input__", "__copy__"] {
                let graph = line(saver.clone(), profile.options());
                let thread = format!("{} {how}", profile.name());
                let config = RunConfig::new(&*thread).durability(Durability::Sync);
                graph.invoke(input(), config).await.unwrap();
                let update = match how {
                    "run" => None,
                    "c" | "__input__" => {
                        let update = StateUpdate::new(Update::new().set("other", "o"));
                        Some(update.as_node(how))
                    }
                    _ => Some(StateUpdate { values: None, as_node: Some(how.to_owned()) }),
                };
                if let Some(update) = update {
                    graph.update_state(&thread, None, update).await.unwrap();
                }
                check(&graph, &thread).await;
                saver.prune(&[thread.as_str().into()], Keep::Latest).await.unwrap();
                check(&graph, &thread).await;
            }
        }
    });
}

/// A snapshot is no reason to pause once more.
#[test]
fn going_back_pauses_once() {
    each("back", |saver| async move {
        let graph = line(saver, Profile::Safe.options());
        let config = || {
            let mut config = RunConfig::new("t").durability(Durability::Sync);
            config.interrupt_before = Some(vec!["b".into()]);
            config
        };
        graph.invoke(input(), config()).await.unwrap();
        let paused = graph.get_state("t", None).await.unwrap();
        assert_eq!(paused.next, [Arc::from("b")]);
        graph.invoke(Input::Resume, config()).await.unwrap();
        let back = RunConfig { checkpoint: paused.checkpoint, ..config() };
        graph.invoke(Input::Resume, back).await.unwrap();
        let after = graph.get_state("t", None).await.unwrap();
        assert_eq!(after.next, [], "it went on to its end");
        check(&graph, "t").await;
    });
}
