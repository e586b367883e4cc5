//! Runs that are asked to end early. What is expected was measured on langgraph 1.2.9 with its
//! RunControl.
#![cfg(not(madsim))]

mod policies_support;

use durasim_runtime::graph::NodeOptions;
use durasim_runtime::pregel::{Input, RunControl};
use durasim_runtime::{Durability, NodeContext, Options, Profile, START, State, StateGraph};
use policies_support::{
    BOTH, Log, UPDATES, Waits, compiled, compiled_with, config, faithful, graph, input, ms, paused,
    run, says, state,
};

/// `a` asks for the end of the run; `b` comes after it.
fn line(control: &RunControl, log: &Log) -> StateGraph {
    let (control, log) = (control.clone(), log.clone());
    let of_b = log.clone();
    graph("g")
        .node("a", move |_: State, context: NodeContext| {
            log.add("a");
            control.request_drain("bye");
            async move {
                // Without a control of its own, a run is told nothing.
                let reason = context.drain_reason().map_or("nothing".into(), |r| r.to_string());
                Ok(says(&reason))
            }
        })
        .node("b", move |_, _| {
            of_b.add("b");
            async { Ok(says("b")) }
        })
        .edge(START, "a")
        .edge("a", "b")
}

const DRAINED: &str = "! GraphDrained: the run was drained: bye";

#[test]
fn a_run_ends_at_the_edge_of_its_step_and_can_be_resumed() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        paused(async move {
            let (control, log) = (RunControl::new(), Log::default());
            let (graph, saver) = compiled(line(&control, &log));
            let config = config(BOTH).durability(durability);
            let seen = run(&graph, input(), config.clone().control(&control)).await;
            let first = [
                r#"values {"log":[],"x":0}"#,
                r#"updates {"a":{"log":["bye"]}}"#,
                r#"values {"log":["bye"],"x":0}"#,
                DRAINED,
            ];
            assert_eq!(seen, first);
            assert_eq!(saver.steps(None).await.last().unwrap(), "loop 1");
            assert_eq!(state(&graph).await.1, ["b"]);
            let seen = run(&graph, Input::Resume, config).await;
            assert_eq!(seen.last().unwrap(), r#"values {"log":["bye","b"],"x":0}"#);
            assert_eq!(log.take(), ["a", "b"]);
        });
    }
}

#[test]
fn a_run_that_was_drained_before_keeps_its_input() {
    paused(async {
        let control = RunControl::new();
        control.request_drain("bye");
        let (graph, saver) = compiled(line(&RunControl::new(), &Log::default()));
        assert_eq!(run(&graph, input(), config(BOTH).control(&control)).await, [DRAINED]);
        assert_eq!(saver.log.take(), ["put input -1"]);
        assert_eq!(state(&graph).await.1, ["__start__"]);
        let seen = run(&graph, Input::Resume, config(BOTH)).await;
        assert_eq!(seen.last().unwrap(), r#"values {"log":["nothing","b"],"x":0}"#);
    });
}

#[test]
fn a_run_with_nothing_left_is_just_finished() {
    paused(async {
        let control = RunControl::new();
        let asks = control.clone();
        let node = move |_, _| {
            asks.request_drain("bye");
            async { Ok(says("a")) }
        };
        let (graph, _) = compiled(graph("g").node("a", node).edge(START, "a"));
        let seen = run(&graph, input(), config(UPDATES).control(&control)).await;
        assert_eq!(seen, [r#"updates {"a":{"log":["a"]}}"#]);
    });
}

/// What ran in a drained graph inside and beside it, and what did after the resume.
async fn inside(durability: Durability, options: Options) -> (Vec<String>, Vec<String>) {
    let (control, log) = (RunControl::new(), Log::default());
    let outer = graph("outer")
        .subgraph("sub", line(&control, &log))
        .waiting("side", &log, ms(100), NodeOptions::new())
        .edge(START, "sub")
        .edge(START, "side");
    let (outer, _) = compiled_with(outer, options);
    let config = config(UPDATES).durability(durability);
    let seen = run(&outer, input(), config.clone().control(&control)).await;
    // What runs beside it is let finish.
    assert_eq!(seen, [r#"updates {"side":{"log":["side"]}}"#, DRAINED]);
    let mut first = log.take();
    first.sort();
    let seen = run(&outer, Input::Resume, config).await;
    let found = r#"updates {"side":{"log":["side"]},"__metadata__":{"cached":true}}"#;
    assert_eq!(seen[0], found);
    (first, log.take())
}

#[test]
fn a_graph_inside_is_drained_too() {
    paused(async {
        let first = ["a", "side ends", "side starts"].map(str::to_owned).to_vec();
        let second = vec!["b".to_owned()];
        let ended = inside(Durability::Async, faithful()).await;
        assert_eq!(ended, (first.clone(), second.clone()));
        // LangGraph stores nothing of it at exit durability, and `a` runs again.
        let again = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(inside(Durability::Exit, faithful()).await, (first.clone(), again));
        let safe = inside(Durability::Exit, Profile::Safe.options()).await;
        assert_eq!(safe, (first, second));
    });
}
