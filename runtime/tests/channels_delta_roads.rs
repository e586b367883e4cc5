//! Roads past the rows of a delta channel: graphs inside nodes, going back, caches, answers. Its value is
//! that of a plain reducer on each of them.
#![cfg(not(madsim))]

mod checkpoint_support;

use std::future::{Ready, ready};
use std::sync::Arc;

use checkpoint_support::block_on;
use durasim_runtime::cache::{CachePolicy, MemoryCache};
use durasim_runtime::channels::{ChannelSpec, DeltaReducer, Reducer};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::ListFilter;
use durasim_runtime::graph::{Command, NodeOptions, Persistence};
use durasim_runtime::pregel::{Input, RunConfig, RunError, StateSnapshot};
use durasim_runtime::value::{self, Value};
use durasim_runtime::{
    CompiledGraph, Doors, Durability, END, NodeContext, NodeError, Profile, START, State,
    StateGraph, Update,
};
use serde_json::json;

fn input() -> Input {
    Input::New(value::from_json(json!({"log": ["in"], "plain": ["in"]})))
}

async fn run(graph: &CompiledGraph, durability: Durability) -> Result<Value, RunError> {
    graph.invoke(input(), RunConfig::new("t").durability(durability)).await
}

fn texts(state: &State, key: &str) -> Vec<String> {
    state.get_or(key, vec![]).expect("a list")
}

/// A node of this name that adds its name to the delta channel `log` and to the reducer `plain`, of
/// which every checkpoint holds the value.
fn add(name: &'static str) -> impl Fn(State, NodeContext) -> Ready<Result<Update, NodeError>> {
    move |_, _| ready(Ok(Update::new().set("log", vec![name]).set("plain", vec![name])))
}

/// An append to the delta channel `log` is one to the reducer `plain`.
fn with_log(name: &str) -> StateGraph {
    StateGraph::new(name)
        .channel("log", ChannelSpec::Delta(DeltaReducer::append()))
        .reduced_key("plain", Reducer::append())
}

fn compiled(graph: StateGraph) -> CompiledGraph {
    let saver = Arc::new(MemorySaver::new(&Doors::production()));
    let graph = graph.compile(Some(saver), &Doors::production(), Profile::Safe.options());
    graph.expect("a graph")
}

/// A graph inside a node has delta channels of its own, kept from call to call.
fn around_a_graph_with_a_log() -> CompiledGraph {
    let inner = with_log("inner").node("x", add("x")).node("y", add("y"));
    let inner = inner.sequence(&[START, "x", "y", END]).persistence(Persistence::PerThread);
    let outer = StateGraph::new("outer").key("log").key("plain").subgraph("inside", inner);
    compiled(outer.sequence(&[START, "inside", END]))
}

/// What stands in each checkpoint of the graph inside, newest first.
async fn logs_inside(graph: &CompiledGraph) -> Vec<Vec<String>> {
    let filter = ListFilter::default();
    let history = graph.get_state_history_inside("t", "inside", filter).await.unwrap();
    for state in &history {
        assert_eq!(texts(&state.values, "log"), texts(&state.values, "plain"));
    }
    history.iter().map(|state| texts(&state.values, "log")).collect()
}

#[test]
fn a_graph_inside_another_keeps_its_value() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        block_on(async {
            let graph = around_a_graph_with_a_log();
            for _ in 0..3 {
                run(&graph, durability).await.unwrap();
            }
            assert_eq!(logs_inside(&graph).await[0].len(), 9);
        });
    }
}

/// At exit durability rows go to the checkpoint that the graph inside starts from, which has
/// children when the graph around it goes back.
#[test]
fn going_back_leaves_the_value_of_a_graph_inside_as_it_is() {
    for [first, second] in [
        [Durability::Sync, Durability::Sync],
        [Durability::Sync, Durability::Exit],
        [Durability::Exit, Durability::Exit],
    ] {
        block_on(async {
            let graph = around_a_graph_with_a_log();
            for _ in 0..3 {
                run(&graph, first).await.unwrap();
            }
            let before = logs_inside(&graph).await;
            let history = graph.get_state_history("t", ListFilter::default()).await.unwrap();
            let at = |state: &StateSnapshot| state.checkpoint.clone().expect("a stored state");
            for (state, how) in history.iter().flat_map(|s| [(s, Input::Resume), (s, input())]) {
                let config = RunConfig::new("t").durability(second).checkpoint(at(state));
                graph.invoke(how, config).await.unwrap();
                let after = logs_inside(&graph).await;
                assert!(after.ends_with(&before), "{first:?} {second:?}: {after:?}");
            }
            assert!(logs_inside(&graph).await.len() > before.len());
        });
    }
}

/// What a cached node wrote before is used without being stored beside the checkpoint.
#[test]
fn what_comes_from_the_cache_is_in_the_value() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        block_on(async {
            let cached = NodeOptions::new().cache(CachePolicy::new().key(|_: &State| vec![1]));
            let graph = with_log("cached").node_with("x", cached, add("x")).node("y", add("y"));
            let graph = graph.cache(Arc::new(MemoryCache::new(&Doors::production())));
            let graph = compiled(graph.sequence(&[START, "x", "y", END]));
            for _ in 0..3 {
                run(&graph, durability).await.unwrap();
            }
            let kept = graph.get_state_history("t", ListFilter::default()).await.unwrap();
            assert_eq!(texts(&kept[0].values, "log").len(), 9);
            for state in kept {
                assert_eq!(texts(&state.values, "log"), texts(&state.values, "plain"));
            }
        });
    }
}

/// Two questions of a checkpoint that has children are answered one by one. Its tasks' rows are not
/// stored there, but the first answer is, as it is where `log` is a plain reducer.
#[test]
fn answers_at_a_checkpoint_with_children_are_kept() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        block_on(async {
            let ask = |name: &'static str| {
                move |_: State, context: NodeContext| async move {
                    let answer = context.interrupt(name)?;
                    let said = vec![format!("{name} {}", answer.as_str().unwrap_or_default())];
                    Ok::<_, NodeError>(Update::new().set("log", said.clone()).set("plain", said))
                }
            };
            let graph = with_log("asking").node("x", ask("x")).node("y", ask("y"));
            let graph = graph.edge(START, "x").edge(START, "y").edge("x", END).edge("y", END);
            let graph = compiled(graph);
            run(&graph, durability).await.unwrap();
            let asked = graph.get_state("t", None).await.unwrap();
            let at = asked.checkpoint.expect("a stored state");
            // Another message comes before the answers do.
            run(&graph, durability).await.unwrap();
            for task in &asked.tasks {
                let answer = Command::new().answer(&task.interrupts[0].1, "yes");
                let config = RunConfig::new("t").durability(durability).checkpoint(at.clone());
                graph.invoke(Input::Command(answer), config).await.unwrap();
            }
            let head = graph.get_state("t", None).await.unwrap();
            assert!(head.next.is_empty(), "{durability:?}: {:?}", head.next);
            assert_eq!(texts(&head.values, "log"), ["in", "x yes", "y yes"]);
            assert_eq!(texts(&head.values, "plain"), ["in", "x yes", "y yes"]);
        });
    }
}
