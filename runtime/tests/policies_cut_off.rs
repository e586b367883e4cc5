//! A run inside a node inside a node ends with whatever ends the outermost one, and does its exit
//! duties. What is expected was measured on langgraph 1.2.9 with graphs of these shapes: at exit
//! durability each of the three graphs leaves one checkpoint, and a resume runs the last node only.
#![cfg(not(madsim))]

mod policies_support;

use durasim_runtime::graph::{NodeOptions, RetryPolicy, TimeoutPolicy};
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{
    CancelStyle, CompiledGraph, Durability, NodeContext, Options, Profile, START, StateGraph,
    StreamMode,
};
use futures::StreamExt;
use policies_support::{
    Log, Recorder, UPDATES, Waits, compiled, compiled_with, config, graph, input, ms, paused, run,
    says,
};

/// `mid` runs `leaf`, which runs `first` and then, for 300 ms, `last`.
fn nested(log: &Log, mid: NodeOptions) -> StateGraph {
    let first = |_, _| async { Ok(says("first")) };
    let leaf = graph("leaf").node("first", first).waiting("last", log, ms(300), NodeOptions::new());
    let leaf = leaf.edge(START, "first").edge("first", "last");
    let middle = graph("mid").node("m0", first).subgraph("leaf", leaf);
    let middle = middle.edge(START, "m0").edge("m0", "leaf");
    graph("top").subgraph_with("mid", mid, middle).edge(START, "mid")
}

fn at(durability: Durability, modes: &[StreamMode]) -> RunConfig {
    config(modes).durability(durability)
}

/// What all three graphs leave.
async fn check(log: &Log, saver: &Recorder, durability: Durability, error: bool) {
    assert_eq!(log.take(), ["last starts", "last is cut off"], "{durability:?}");
    let mut found = saver.steps(None).await;
    found.sort();
    let expected: &[&str] = match durability {
        Durability::Exit => &["loop 0", "mid loop 1", "mid|leaf loop 1"],
        _ => &[
            "input -1",
            "loop 0",
            "mid input -1",
            "mid loop 0",
            "mid loop 1",
            "mid|leaf input -1",
            "mid|leaf loop 0",
            "mid|leaf loop 1",
        ],
    };
    assert_eq!(found, expected, "{durability:?}");
    let stored = saver.log.take();
    let errors: Vec<_> = stored.iter().filter(|line| line.contains("__error__")).collect();
    assert_eq!(errors.len(), usize::from(error), "{stored:?}");
    assert!(errors.iter().all(|line| line.starts_with("~__pregel_pull, mid:")), "{errors:?}");
}

/// A resume runs only what was cut off.
async fn resume(log: &Log, graph: &CompiledGraph) {
    let seen = run(graph, Input::Resume, config(UPDATES)).await;
    assert_eq!(seen, [r#"updates {"mid":{"log":["first","first","first","last"],"x":0}}"#]);
    assert_eq!(log.take(), ["last starts", "last ends"]);
}

fn everywhere<F: Future<Output = ()>>(check: impl Fn(Durability, Options) -> F) {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for profile in [Profile::Faithful, Profile::Safe] {
            paused(check(durability, profile.options()));
        }
    }
}

#[test]
fn by_a_close() {
    everywhere(|durability, options| async move {
        let log = Log::default();
        // The close comes between two chunks, so there is one to wait for.
        let started = NodeOptions::new();
        let (graph, saver) = compiled_with(with_signal(nested(&log, started)), options);
        let mut stream = graph.stream(input(), at(durability, &[StreamMode::Custom]));
        let chunk = stream.next().await.unwrap().unwrap();
        assert_eq!(chunk.mode, StreamMode::Custom);
        stream.close().await.unwrap();
        assert_eq!(log.take(), ["last starts", "last is cut off"]);
        let found = saver.steps(None).await;
        assert!(found.contains(&"mid|leaf loop 1".to_owned()), "{durability:?} {found:?}");
        assert!(found.contains(&"mid loop 1".to_owned()), "{durability:?} {found:?}");
    });
}

/// Something beside `mid` that emits while `last` runs.
fn with_signal(graph: StateGraph) -> StateGraph {
    graph
        .node("signal", |_, context: NodeContext| async move {
            context.sleep(ms(100)).await;
            context.emit("now")?;
            Ok(())
        })
        .edge(START, "signal")
}

#[test]
fn by_a_cancelled_task() {
    everywhere(|durability, options| async move {
        let log = Log::default();
        let (graph, saver) = compiled_with(nested(&log, NodeOptions::new()), options);
        let config = at(durability, UPDATES).cancel(CancelStyle::Task);
        let mut stream = graph.stream(input(), config);
        assert!(tokio::time::timeout(ms(100), stream.next()).await.is_err());
        drop(stream);
        // The finalizer does what is left.
        tokio::time::sleep(ms(1)).await;
        check(&log, &saver, durability, false).await;
        resume(&log, &graph).await;
    });
}

#[test]
fn by_a_limit_of_the_node_around() {
    everywhere(|durability, options| async move {
        let log = Log::default();
        let limited = NodeOptions::new().timeout(TimeoutPolicy::run(ms(100)));
        let (graph, saver) = compiled_with(nested(&log, limited), options);
        let seen = run(&graph, input(), at(durability, UPDATES)).await;
        assert!(seen[0].starts_with("! NodeTimeoutError: Node 'mid'"), "{seen:?}");
        check(&log, &saver, durability, true).await;
    });
}

#[test]
fn another_attempt_begins_anew_in_a_namespace_of_its_own() {
    paused(async {
        let log = Log::default();
        let limited = NodeOptions::new()
            .timeout(TimeoutPolicy::run(ms(100)))
            .retry(RetryPolicy { max_attempts: 2, ..RetryPolicy::default() });
        let (graph, saver) = compiled(nested(&log, limited));
        let seen = run(&graph, input(), at(Durability::Exit, UPDATES)).await;
        assert!(seen[0].starts_with("! NodeTimeoutError: Node 'mid'"), "{seen:?}");
        let once = ["last starts", "last is cut off"];
        assert_eq!(log.take(), [once, once].concat());
        let mut found = saver.steps(None).await;
        found.sort();
        let inside = ["mid loop 1", "mid|1 loop 1", "mid|1|leaf loop 1", "mid|leaf loop 1"];
        assert_eq!(found, [&["loop 0"], &inside[..]].concat());
    });
}
