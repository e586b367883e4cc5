//! Options that all nodes of a graph share, and what is known of a node. What is expected was
//! measured on langgraph 1.2.9 with set_node_defaults.
#![cfg(not(madsim))]

mod policies_support;

use std::sync::Arc;

use durasim_runtime::cache::{CachePolicy, MemoryCache};
use durasim_runtime::graph::{
    GraphError, NodeFailure, NodeOptions, RetryOn, RetryPolicy, TimeoutPolicy,
};
use durasim_runtime::{Doors, NodeContext, NodeError, START, State, StateGraph, StreamMode};
use policies_support::{
    Log, UPDATES, Waits, boom, compiled, config, faithful, graph, input, ms, paused, run, says,
};

fn tells() -> NodeOptions {
    NodeOptions::new().on_error(|_, failure: NodeFailure, context: NodeContext| async move {
        // Longer than the limit of the nodes.
        context.sleep(ms(200)).await;
        let NodeError::Failed { kind, .. } = &failure.error else { return Ok(says("?")) };
        Ok(says(&format!("{} {} {kind}", context.node(), failure.node)))
    })
}

#[test]
fn a_default_handler_and_a_default_limit() {
    paused(async {
        let log = Log::default();
        let graph = graph("g")
            .node_defaults(tells().timeout(TimeoutPolicy::run(ms(50))))
            .waiting("a", &log, ms(200), NodeOptions::new())
            .edge(START, "a");
        let seen = run(&compiled(graph).0, input(), config(UPDATES)).await;
        let said = "__default_error_handler__ a NodeTimeoutError";
        let expected = format!(r#"updates {{"__default_error_handler__":{{"log":["{said}"]}}}}"#);
        assert_eq!(seen, [expected]);
    });
}

#[test]
fn a_nodes_own_options_win() {
    paused(async {
        let log = Log::default();
        let own = NodeOptions::new()
            .timeout(TimeoutPolicy::run(ms(500)))
            .on_error(|_, _, _| async { Ok(says("own")) });
        let graph = graph("g")
            .node_defaults(tells().timeout(TimeoutPolicy::run(ms(50))))
            .waiting("a", &log, ms(200), own.clone())
            .node_with("b", own, |_: State, _: NodeContext| async { Err::<(), _>(boom()) })
            .edge(START, "a")
            .edge("a", "b");
        let seen = run(&compiled(graph).0, input(), config(UPDATES)).await;
        let expected =
            [r#"updates {"a":{"log":["a"]}}"#, r#"updates {"__error_handler__b":{"log":["own"]}}"#];
        assert_eq!(seen, expected);
    });
}

fn retried() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 2,
        retry_on: RetryOn::Classes(vec!["ValueError".to_owned()]),
        ..RetryPolicy::default()
    }
}

#[test]
fn retries_hold_for_handlers_and_the_cache_does_not() {
    paused(async {
        let log = Log::default();
        let (node, handler) = (log.clone(), log.clone());
        let own = NodeOptions::new().on_error(move |_, _, context: NodeContext| {
            handler.add(format!("h {}", context.attempt()));
            async move { if context.attempt() == 1 { Err(boom()) } else { Ok(says("h")) } }
        });
        let cache = Arc::new(MemoryCache::new(&Doors::production()));
        let graph = graph("g")
            .node_defaults(NodeOptions::new().retry(retried()).cache(CachePolicy::new()))
            .node_with("a", own, move |_: State, _: NodeContext| {
                node.add("a");
                async { Err::<(), _>(boom()) }
            })
            .edge(START, "a")
            .cache(cache);
        let (graph, _) = compiled(graph);
        for _ in 0..2 {
            run(&graph, input(), config(UPDATES)).await;
            assert_eq!(log.take(), ["a", "a", "h 1", "h 2"]);
        }
    });
}

#[test]
fn graphs_inside_do_not_inherit_them() {
    paused(async {
        let log = Log::default();
        let inner = log.clone();
        let inner = graph("inner")
            .node("n", move |_: State, _: NodeContext| {
                inner.add("n");
                async { Err::<(), _>(boom()) }
            })
            .edge(START, "n");
        let outer = graph("outer")
            .node_defaults(NodeOptions::new().on_error(|_, _, _| async { Ok(says("h")) }))
            .subgraph("sub", inner)
            .edge(START, "sub");
        let seen = run(&compiled(outer).0, input(), config(UPDATES)).await;
        assert_eq!(seen, [r#"updates {"__default_error_handler__":{"log":["h"]}}"#]);
        assert_eq!(log.take(), ["n"]);
    });
}

#[test]
fn what_makes_no_sense_for_all_is_a_mistake() {
    let mistake = |graph: StateGraph| {
        let graph = graph.node("a", |_, _| async { Ok(()) }).edge(START, "a");
        paused(async { graph.compile(None, &Doors::production(), faithful()).err() })
    };
    let deferred = graph("g").node_defaults(NodeOptions::new().defer());
    assert_eq!(mistake(deferred), Some(GraphError::BadDefault("defer")));
    let lost = graph("g").node_defaults(tells().destinations(&["gone"]));
    assert!(mistake(lost).unwrap().to_string().contains("gone"));
    assert_eq!(mistake(graph("g").node_defaults(tells().destinations(&["a"]))), None);
}

#[test]
fn what_is_known_of_a_node_shows_beside_its_tasks() {
    paused(async {
        let known = NodeOptions::new().metadata("team", "x").metadata("n", 1);
        let graph = graph("g")
            .node_with("m", known, |_: State, context: NodeContext| async move {
                context.emit_message("hello")?;
                Ok(says("m"))
            })
            .edge(START, "m");
        let (graph, _) = compiled(graph);
        let modes = [StreamMode::Tasks, StreamMode::Messages];
        let seen = run(&graph, input(), config(&modes)).await;
        assert!(seen[0].ends_with(r#""metadata":{"team":"x","n":1}}"#), "{seen:?}");
        assert!(seen[1].ends_with(r#""team":"x","n":1}]"#), "{seen:?}");
        assert!(seen[2].contains("interrupts") && !seen[2].contains("team"), "{seen:?}");
    });
}
