//! Rows of delta channels: what is stored before what, when the whole is stored, and what happens
//! when some of it is lost.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use checkpoint_support::{block_on, key};
use durasim_runtime::channels::{ChannelSpec, DeltaReducer, Reducer};
use durasim_runtime::checkpoint::codec::read_delta_snapshot;
use durasim_runtime::checkpoint::history::DeltaHistories;
use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{
    Keep, Landing, ListFilter, Put, PutWrites, Saver, SaverError, SaverResult,
};
use durasim_runtime::checkpoint::version::version_number;
use durasim_runtime::checkpoint::{CheckpointTuple, ThreadKey};
use durasim_runtime::pregel::{Input, RunConfig, RunError, StateUpdate};
use durasim_runtime::value::{self, Value};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeError, Profile, START, State, StateGraph, Update,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;

/// Keeps a log of what has landed. Rows take their time, those of other channels most.
struct Slow {
    inner: MemorySaver,
    landed: Arc<Mutex<Vec<String>>>,
    /// Which of the calls fails, counted by kind from 0.
    fails: Fails,
    /// Puts and rows so far.
    calls: Mutex<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fails {
    Nothing,
    Rows(usize),
    Put(usize),
}

impl Slow {
    fn new(fails: Fails) -> Arc<Slow> {
        let inner = MemorySaver::new(&Doors::production());
        Arc::new(Slow { inner, landed: Arc::default(), fails, calls: Mutex::default() })
    }

    fn count(&self, of: impl Fn(&mut (usize, usize)) -> &mut usize) -> usize {
        let mut calls = self.calls.lock().unwrap();
        let count = of(&mut calls);
        *count += 1;
        *count - 1
    }

    fn landed(&self) -> Vec<String> {
        self.landed.lock().unwrap().clone()
    }
}

impl Layer for Slow {
    fn inner(&self) -> &dyn Saver {
        &self.inner
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        let fate = put.fate.clone();
        let nth = self.count(|calls| &mut calls.0);
        let landed = self.landed.clone();
        let line = format!("put {}", put.metadata.step);
        let put = self.inner.put(put);
        let fails = self.fails == Fails::Put(nth);
        let write = async move {
            if fails {
                return Err(SaverError::Store("no space".to_owned()));
            }
            put.await?;
            landed.lock().unwrap().push(line);
            Ok(())
        };
        Landing::of_checkpoint(fate, write)
    }

    fn on_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        let fate = put.fate.clone();
        let nth = self.count(|calls| &mut calls.1);
        let landed = self.landed.clone();
        let names: Vec<&str> = put.writes.iter().map(|(name, _)| &**name).collect();
        let line = format!("rows {}", names.join(" "));
        let put = self.inner.put_writes(put);
        let fails = self.fails == Fails::Rows(nth);
        let pause = Duration::from_millis(if line.contains("log") { 3 } else { 30 });
        let write = async move {
            tokio::time::sleep(pause).await;
            if fails {
                return Err(SaverError::Store("no space".to_owned()));
            }
            put.await?;
            landed.lock().unwrap().push(line);
            Ok(())
        };
        Landing::of_writes(fate, write)
    }
}

/// `a` and `c` write to the delta channel, `b` to another key.
fn line(saver: Arc<dyn Saver>, profile: Profile, frequency: u64) -> CompiledGraph {
    let list = |text: &str| Update::new().set("log", vec![text]).set("plain", vec![text]);
    let (a, c) = (list("a"), list("c"));
    let delta = DeltaReducer::append().snapshot_frequency(frequency);
    StateGraph::new("line")
        .channel("log", ChannelSpec::Delta(delta))
        .reduced_key("plain", Reducer::append())
        .key("other")
        .node("a", move |_: State, _| std::future::ready(Ok::<_, NodeError>(a.clone())))
        .node("b", |_: State, _| async { Ok::<_, NodeError>(Update::new().set("other", "b")) })
        .node("c", move |_: State, _| std::future::ready(Ok::<_, NodeError>(c.clone())))
        .sequence(&[START, "a", "b", "c", END])
        .compile(Some(saver), &Doors::production(), profile.options())
        .expect("a graph")
}

fn input() -> Input {
    Input::New(value::from_json(json!({"log": ["in"], "plain": ["in"]})))
}

async fn run(graph: &CompiledGraph, durability: Durability) -> Result<Value, RunError> {
    graph.invoke(input(), RunConfig::new("t").durability(durability)).await
}

async fn head(saver: &dyn Saver) -> CheckpointTuple {
    saver.get_tuple(&key("t", ""), None).await.unwrap().expect("a head")
}

fn texts(state: &State, key: &str) -> Vec<String> {
    state.get_or(key, vec![]).expect("a list")
}

#[test]
fn a_checkpoint_comes_after_the_rows_that_it_is_made_of() {
    block_on(async {
        let saver = Slow::new(Fails::Nothing);
        run(&line(saver.clone(), Profile::Faithful, 1000), Durability::Async).await.unwrap();
        let landed = saver.landed();
        let at = |line: &str| landed.iter().position(|l| l == line).expect(line);
        let start = at("rows log plain branch:to:a");
        assert!(at("put -1") < start, "an input waits for nothing: {landed:?}");
        assert!(start < at("put 0"), "{landed:?}");
        assert!(at("rows log plain branch:to:b") < at("put 1"), "{landed:?}");
        // Rows of other channels are not waited for.
        assert!(at("put 2") < at("rows other branch:to:c"), "{landed:?}");
        assert!(at("rows log plain") < at("put 3"), "{landed:?}");

        let saver = Slow::new(Fails::Nothing);
        run(&line(saver.clone(), Profile::Faithful, 1000), Durability::Exit).await.unwrap();
        assert_eq!(saver.landed(), ["put -2", "rows log", "rows log", "rows log", "put 3"]);
    });
}

/// LangGraph refuses the checkpoint whose rows were lost, and the next one stands on a parent that
/// is not there.
#[test]
fn lost_rows_refuse_the_checkpoint_or_make_it_whole() {
    block_on(async {
        let saver = Slow::new(Fails::Rows(1));
        let graph = line(saver.clone(), Profile::Faithful, 1000);
        assert!(matches!(run(&graph, Durability::Async).await, Err(RunError::Saver(_))));
        assert!(!saver.landed().contains(&"put 1".to_owned()));
        let state = graph.get_state("t", None).await.unwrap();
        assert_eq!(texts(&state.values, "plain"), ["in", "a", "c"]);
        assert_eq!(texts(&state.values, "log"), ["c"]);
    });
    for lost in [Fails::Rows(0), Fails::Rows(1), Fails::Rows(3), Fails::Put(1), Fails::Put(2)] {
        for durability in [Durability::Async, Durability::Exit] {
            block_on(async {
                let saver = Slow::new(lost);
                let graph = line(saver.clone(), Profile::Safe, 1000);
                let _ = run(&graph, durability).await;
                for state in graph.get_state_history("t", ListFilter::default()).await.unwrap() {
                    let (log, plain) = (texts(&state.values, "log"), texts(&state.values, "plain"));
                    assert_eq!(log, plain, "{:?}", state.metadata);
                }
            });
        }
    }
}

/// The bound of the walk: a channel that is not written to any more is stored whole all the same,
/// under a version of its own, as a saver may keep values by version.
#[test]
fn a_snapshot_is_due_after_5000_steps() {
    block_on(async {
        let saver = Arc::new(MemorySaver::new(&Doors::production()));
        let graph = line(saver.clone(), Profile::Faithful, 1000);
        run(&graph, Durability::Sync).await.unwrap();
        let head = head(&*saver).await;
        assert_eq!(
            head.metadata.extra,
            *json!({"counters_since_delta_snapshot": {"log": [3, 5]}}).as_object().unwrap()
        );
        let mut metadata = head.metadata.clone();
        metadata.extra["counters_since_delta_snapshot"] = json!({ "log": [3, 4998] });
        let put = Put::new(&head.key, head.parent.as_deref(), head.checkpoint.clone(), metadata);
        let put = saver.put(put);
        put.await.unwrap();
        run(&graph, Durability::Sync).await.unwrap();

        let tuples = saver.list("t", Some(""), ListFilter::default()).await.unwrap();
        let holds: Vec<_> = tuples
            .iter()
            .rev()
            .filter_map(|t| {
                Some((
                    t.metadata.step,
                    read_delta_snapshot(t.checkpoint.channel_values.get("log")?).unwrap()?,
                ))
            })
            .collect();
        let [(5, Value::Array(whole))] = &holds[..] else { panic!("{holds:?}") };
        assert_eq!(whole.len(), 4);
        let counters: Vec<_> = tuples
            .iter()
            .rev()
            .skip(5)
            .map(|t| {
                t.metadata.extra.get("counters_since_delta_snapshot").map(|all| all["log"].clone())
            })
            .collect();
        let counted = |updates: u64, steps: u64| Some(json!([updates, steps]));
        assert_eq!(counters, [counted(3, 4999), None, counted(1, 1), counted(1, 2), counted(2, 3)]);
        let state = graph.get_state("t", None).await.unwrap();
        assert_eq!(texts(&state.values, "log"), texts(&state.values, "plain"));
        let version = |step| {
            let tuple = tuples.iter().find(|t| t.metadata.step == step).unwrap();
            version_number(&tuple.checkpoint.channel_versions["log"])
        };
        assert!(version(4) < version(5) && version(5) < version(6));
    });
}

#[test]
fn damage_is_an_error_that_says_where() {
    block_on(async {
        let saver = Arc::new(MemorySaver::new(&Doors::production()));
        let graph = line(saver.clone(), Profile::Faithful, 1);
        run(&graph, Durability::Sync).await.unwrap();
        let CheckpointTuple { key, mut checkpoint, metadata, parent, .. } = head(&*saver).await;
        checkpoint.channel_values["log"] = Arc::new(Value::Ext(7, vec![0xc1]));
        let put = saver.put(Put::new(&key, parent.as_deref(), checkpoint, metadata));
        put.await.unwrap();
        let error = graph.get_state("t", None).await.unwrap_err().to_string();
        assert!(error.contains("delta channel \"log\""), "{error}");
        assert!(run(&graph, Durability::Sync).await.is_err());
    });
}

/// Between the two reads that a state is made of, `then` is done once.
struct Meanwhile {
    inner: Arc<MemorySaver>,
    then: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Meanwhile {
    /// A graph whose saver lets another run, and a prune, come between.
    async fn pruned() -> CompiledGraph {
        let inner = Arc::new(MemorySaver::new(&Doors::production()));
        let other = line(inner.clone(), Profile::Safe, 4);
        for _ in 0..2 {
            run(&other, Durability::Sync).await.unwrap();
        }
        let saver = inner.clone();
        let then = async move {
            run(&other, Durability::Sync).await.unwrap();
            saver.prune(&["t".into()], Keep::Latest).await.unwrap();
        };
        let saver = Meanwhile { inner, then: Mutex::new(Some(then.boxed())) };
        line(Arc::new(saver), Profile::Safe, 4)
    }
}

impl Saver for Meanwhile {
    fn get_tuple(&self, key: &ThreadKey, id: Option<&str>) -> SaverResult<Option<CheckpointTuple>> {
        self.inner.get_tuple(key, id)
    }

    fn list(
        &self,
        thread: &str,
        namespace: Option<&str>,
        filter: ListFilter,
    ) -> SaverResult<Vec<CheckpointTuple>> {
        self.inner.list(thread, namespace, filter)
    }

    fn put(&self, put: Put) -> SaverResult<()> {
        self.inner.put(put)
    }

    fn put_writes(&self, put: PutWrites) -> SaverResult<()> {
        self.inner.put_writes(put)
    }

    fn get_delta_channel_history<'a>(
        &'a self,
        key: &ThreadKey,
        id: Option<&str>,
        channels: &[Arc<str>],
    ) -> BoxFuture<'a, Result<DeltaHistories, SaverError>> {
        let then = self.then.lock().unwrap().take();
        let (key, id, channels) = (key.clone(), id.map(str::to_owned), channels.to_vec());
        let history = async move {
            if let Some(then) = then {
                then.await;
            }
            self.inner.get_delta_channel_history(&key, id.as_deref(), &channels).await
        };
        history.boxed()
    }

    fn delete_thread(&self, thread: &str) -> SaverResult<()> {
        self.inner.delete_thread(thread)
    }

    fn copy_thread(&self, from: &str, to: &str) -> SaverResult<()> {
        self.inner.copy_thread(from, to)
    }

    fn prune(&self, threads: &[Arc<str>], keep: Keep) -> SaverResult<()> {
        self.inner.prune(threads, keep)
    }

    fn delete_for_runs(&self, runs: &[Arc<str>]) -> SaverResult<()> {
        self.inner.delete_for_runs(runs)
    }
}

#[test]
fn a_state_that_is_pruned_while_it_is_read_is_read_again() {
    block_on(async {
        let graph = Meanwhile::pruned().await;
        let state = graph.get_state("t", None).await.unwrap();
        assert_eq!(texts(&state.values, "log").len(), 9);
        assert_eq!(texts(&state.values, "log"), texts(&state.values, "plain"));
        // A run that starts there loses nothing.
        let graph = Meanwhile::pruned().await;
        run(&graph, Durability::Sync).await.unwrap();
        let state = graph.get_state("t", None).await.unwrap();
        assert_eq!(texts(&state.values, "log").len(), 12);
        assert_eq!(texts(&state.values, "log"), texts(&state.values, "plain"));
    });
}

#[test]
fn a_checkpoint_that_is_gone_has_no_half_of_a_state() {
    block_on(async {
        // It was listed before it went.
        let graph = Meanwhile::pruned().await;
        let history = graph.get_state_history("t", ListFilter::default()).await.unwrap();
        for state in &history {
            assert_eq!(texts(&state.values, "log"), texts(&state.values, "plain"));
        }
        let graph = Meanwhile::pruned().await;
        let update = StateUpdate::new(Update::new().set("other", "x")).as_node("b");
        let error = graph.update_state("t", None, update).await.unwrap_err();
        assert!(error.to_string().contains("was removed while it was read"), "{error}");
    });
}
