//! Limits of a node's attempts. What is expected was measured on langgraph 1.2.9 with graphs of
//! these shapes and times.
#![cfg(not(madsim))]

mod policies_support;

use std::time::Duration;

use durasim_runtime::graph::{
    GraphError, NodeFailure, NodeOptions, Refresh, RetryPolicy, TimeoutPolicy,
};
use durasim_runtime::{Doors, NodeContext, NodeError, START, State, StateGraph, StreamMode};
use policies_support::{
    Log, UPDATES, Waits, compiled, config, faithful, graph, input, ms, paused, run, says, state,
};

fn limited(policy: TimeoutPolicy) -> NodeOptions {
    NodeOptions::new().timeout(policy)
}

/// Runs a graph of the one node `a`.
async fn run_one(graph: StateGraph, modes: &[StreamMode]) -> Vec<String> {
    run(&compiled(graph.edge(START, "a")).0, input(), config(modes)).await
}

const NO_PROGRESS: &str = "! NodeTimeoutError: Node 'a' exceeded its idle timeout of 0.100s \
                           without making progress (elapsed: 0.100s).";

#[test]
fn an_attempt_ends_at_its_limit() {
    paused(async {
        let log = Log::default();
        let node = |policy| graph("g").waiting("a", &log, ms(300), limited(policy));
        let (graph, saver) = compiled(node(TimeoutPolicy::run(ms(100))).edge(START, "a"));
        let began = tokio::time::Instant::now();
        let seen = run(&graph, input(), config(UPDATES)).await;
        let text = "Node 'a' exceeded its run timeout of 0.100s (elapsed: 0.100s).";
        assert_eq!(seen, [format!("! NodeTimeoutError: {text}")]);
        // A timer of tokio's is up to a millisecond late.
        assert!(began.elapsed() < ms(105), "{:?}", began.elapsed());
        assert_eq!(log.take(), ["a starts", "a is cut off"]);
        let row =
            format!("~__pregel_pull, a: -1 __error__={:?}", format!("NodeTimeoutError({text:?})"));
        assert_eq!(saver.log.take().last(), Some(&row));
        assert_eq!(state(&graph).await.1, ["a"]);

        let seen = run_one(node(TimeoutPolicy::idle(ms(100))), UPDATES).await;
        assert_eq!(seen, [NO_PROGRESS]);
        let equal = TimeoutPolicy { run: Some(ms(100)), ..TimeoutPolicy::idle(ms(100)) };
        let seen = run_one(node(equal), UPDATES).await;
        assert!(seen[0].contains("run timeout"), "{seen:?}");
    });
}

/// A node that shows progress every 60 ms, four times.
fn progressing(policy: TimeoutPolicy, show: fn(&NodeContext)) -> StateGraph {
    graph("g").node_with("a", limited(policy), move |_, context: NodeContext| async move {
        for _ in 0..4 {
            context.sleep(ms(60)).await;
            show(&context);
        }
        Ok(says("a"))
    })
}

#[test]
fn an_idle_limit_begins_anew_with_progress() {
    let emits: fn(&NodeContext) = |context| context.emit("e").unwrap();
    let beats: fn(&NodeContext) = NodeContext::heartbeat;
    let auto = TimeoutPolicy::idle(ms(100));
    let strict = auto.refresh(Refresh::Heartbeat);
    let done = r#"updates {"a":{"log":["a"]}}"#;
    paused(async {
        // Whether somebody watches makes no difference.
        for modes in [UPDATES, &[StreamMode::Updates, StreamMode::Custom]] {
            let seen = run_one(progressing(auto, emits), modes).await;
            assert_eq!(seen.last().unwrap(), done);
            let seen = run_one(progressing(strict, emits), modes).await;
            assert_eq!(seen.last().unwrap(), NO_PROGRESS);
        }
        for policy in [auto, strict] {
            assert_eq!(run_one(progressing(policy, beats), UPDATES).await, [done]);
        }
        let seen =
            run_one(progressing(TimeoutPolicy { run: Some(ms(150)), ..strict }, beats), UPDATES);
        assert!(seen.await[0].contains("run timeout of 0.150s"));
    });
}

#[test]
fn retries_begin_anew_and_the_handler_comes_last() {
    paused(async {
        let log = Log::default();
        let handled = log.clone();
        let policy = RetryPolicy { max_attempts: 3, jitter: false, ..RetryPolicy::default() };
        // The default retry policy covers it.
        let options = limited(TimeoutPolicy::run(ms(50))).retry(policy).on_error(
            move |_, failure: NodeFailure, context: NodeContext| {
                handled.add(failure.error);
                async move {
                    // A handler has no limit.
                    context.sleep(ms(500)).await;
                    Ok(says("h"))
                }
            },
        );
        let seen = run_one(graph("g").waiting("a", &log, ms(300), options), UPDATES).await;
        assert_eq!(seen, [r#"updates {"__error_handler__a":{"log":["h"]}}"#]);
        let log = log.take();
        assert_eq!(log.iter().filter(|line| *line == "a is cut off").count(), 3);
        assert!(log.last().unwrap().starts_with("NodeTimeoutError: Node 'a' exceeded its run"));
    });
}

/// What is emitted once an attempt is over, by something that it left behind.
#[test]
fn late_emissions_are_dropped() {
    paused(async {
        let late = |_: State, context: NodeContext| async move {
            let emitter = context.emitter();
            tokio::spawn(async move {
                for _ in 0..3 {
                    tokio::time::sleep(ms(40)).await;
                    emitter.emit("late").unwrap();
                }
            });
            context.sleep(ms(300)).await;
            Ok(())
        };
        let graph = graph("g")
            .node_with("a", limited(TimeoutPolicy::run(ms(100))), late)
            .node("b", |_, context: NodeContext| async move {
                context.sleep(ms(200)).await;
                Ok(())
            })
            .edge(START, "a")
            .edge(START, "b");
        let seen = run(&compiled(graph).0, input(), config(&[StreamMode::Custom])).await;
        assert_eq!(seen[..2], [r#"custom "late""#, r#"custom "late""#]);
        assert_eq!(seen.len(), 3, "{seen:?}");
    });
}

/// A graph whose nodes each wait 60 ms, as often as they say, and then show something.
fn inner(
    nodes: &[&str],
    times: usize,
    options: &NodeOptions,
    show: fn(&NodeContext),
) -> StateGraph {
    let mut before = START;
    let mut inner = graph("inner");
    for &name in nodes {
        let node = move |_: State, context: NodeContext| async move {
            for _ in 0..times {
                context.sleep(ms(60)).await;
                show(&context);
            }
            Ok(says("n"))
        };
        inner = inner.node_with(name, options.clone(), node).edge(before, name);
        before = name;
    }
    inner
}

#[test]
fn graphs_inside_show_progress_for_the_node_around() {
    let silent: fn(&NodeContext) = |_| {};
    let emits: fn(&NodeContext) = |context| context.emit("e").unwrap();
    let beats: fn(&NodeContext) = NodeContext::heartbeat;
    let auto = TimeoutPolicy::idle(ms(100));
    let strict = auto.refresh(Refresh::Heartbeat);
    let plain = NodeOptions::new();
    let own = limited(TimeoutPolicy::idle(Duration::from_secs(5)));
    let ends_well = |inner: StateGraph, policy, subgraphs| {
        let outer = graph("outer").subgraph_with("a", limited(policy), inner).edge(START, "a");
        paused(async move {
            let modes = [StreamMode::Updates, StreamMode::Custom];
            let seen = run(&compiled(outer).0, input(), config(&modes).subgraphs(subgraphs)).await;
            !seen.last().unwrap().starts_with('!')
        })
    };
    // Starts and ends of the nodes inside.
    assert!(ends_well(inner(&["n", "m", "o"], 1, &plain, silent), auto, false));
    assert!(!ends_well(inner(&["n", "m", "o"], 1, &plain, silent), strict, false));
    // What they emit, if the stream shows subgraphs.
    assert!(!ends_well(inner(&["n"], 2, &plain, emits), auto, false));
    assert!(ends_well(inner(&["n"], 2, &plain, emits), auto, true));
    // Heartbeats, up to the nearest node with an idle limit.
    assert!(ends_well(inner(&["n"], 2, &plain, beats), strict, false));
    assert!(!ends_well(inner(&["n"], 2, &own, beats), strict, false));
    assert!(!ends_well(inner(&["n"], 2, &own, beats), auto, false));
}

#[test]
fn a_limit_of_nothing_is_a_mistake() {
    let node = |_: State, _: NodeContext| async { Ok::<_, NodeError>(()) };
    let graph = graph("g")
        .node_with("a", limited(TimeoutPolicy::idle(Duration::ZERO)), node)
        .edge(START, "a");
    let compiled = paused(async { graph.compile(None, &Doors::production(), faithful()).err() });
    assert_eq!(compiled, Some(GraphError::NoTime { node: "a".to_owned() }));
}
