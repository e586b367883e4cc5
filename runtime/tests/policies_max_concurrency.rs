//! A limit on how many tasks of a super-step run at once. What is expected was measured on langgraph
//! 1.2.9 with five nodes beside each other and `max_concurrency` 2.
#![cfg(not(madsim))]

mod policies_support;

use durasim_runtime::graph::NodeOptions;
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{NodeContext, Options, Profile, START, StateGraph};
use policies_support::{
    Log, UPDATES, Waits, boom, compiled, compiled_onto, config, faithful, graph, input, ms, paused,
    run, says,
};

const NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];

fn two() -> RunConfig {
    config(UPDATES).max_concurrency(2)
}

/// Five nodes, of 50 ms each unless `wait` says another time.
fn five(log: &Log, wait: impl Fn(&str) -> u64) -> StateGraph {
    NAMES.iter().fold(graph("g"), |graph, name| {
        let wait = ms(wait(name));
        graph.waiting(name, log, wait, NodeOptions::new()).edge(START, name)
    })
}

#[test]
fn so_many_run_at_once_and_start_in_order() {
    paused(async {
        let log = Log::default();
        let (graph, _) = compiled(five(&log, |_| 50));
        let seen = run(&graph, input(), two()).await;
        let expected = NAMES.map(|name| format!("updates {{\"{name}\":{{\"log\":[\"{name}\"]}}}}"));
        assert_eq!(seen, expected);
        let mut running = 0;
        let mut most = 0;
        let log = log.take();
        for line in &log {
            running += if line.ends_with("starts") { 1 } else { -1 };
            most = most.max(running);
        }
        assert_eq!((running, most), (0, 2), "{log:?}");
        let starts = log.iter().filter_map(|line| line.strip_suffix(" starts"));
        assert_eq!(starts.collect::<Vec<_>>(), NAMES);
    });
}

/// Where in the log of a run the pending write of `n0` landed: after so many starts of nodes.
fn starts_before_first_write(options: Options) -> usize {
    paused(async {
        let log = Log::default();
        let (graph, _) = compiled_onto(five(&log, |_| 50), options, &log);
        run(&graph, input(), two()).await;
        let log = log.take();
        let written = log.iter().position(|line| line.starts_with("~__pregel_pull, n0:")).unwrap();
        log[..written].iter().filter(|line| line.ends_with("starts")).count()
    })
}

#[test]
fn writes_wait_for_their_turn_only_as_langgraph_has_it() {
    // langgraph 1.2.9: n0 has ended, n2 and n3 have run, and then its writes are stored.
    assert!(starts_before_first_write(faithful()) >= 4);
    assert!(starts_before_first_write(Profile::Safe.options()) <= 3);
}

#[test]
fn a_failure_cancels_those_that_wait_too() {
    paused(async {
        let log = Log::default();
        let graph = NAMES.iter().fold(graph("g"), |graph, &name| {
            let log = log.clone();
            let node = move |_, context: NodeContext| {
                log.add(name);
                async move {
                    context.sleep(ms(if name == "n0" { 40 } else { 50 })).await;
                    if name == "n1" { Err(boom()) } else { Ok(says(name)) }
                }
            };
            graph.node(name, node).edge(START, name)
        });
        let (graph, saver) = compiled(graph);
        let seen = run(&graph, input(), two()).await;
        assert_eq!(seen, [r#"updates {"n0":{"log":["n0"]}}"#, "! ValueError: boom"]);
        assert_eq!(log.take(), ["n0", "n1", "n2"]);
        let mut rows: Vec<_> = saver
            .log
            .take()
            .into_iter()
            .filter(|line| line.starts_with("~__pregel_pull, n"))
            .collect();
        rows.sort();
        let cancelled = |name| format!("~__pregel_pull, {name}: -1 __error__=\"CancelledError()\"");
        let expected = [
            "~__pregel_pull, n0: 0 log=[\"n0\"]".to_owned(),
            "~__pregel_pull, n1: -1 __error__=\"ValueError('boom')\"".to_owned(),
            cancelled("n2"),
            cancelled("n3"),
            cancelled("n4"),
        ];
        assert_eq!(rows, expected);
        // What was cancelled runs again, what had finished does not.
        run(&graph, Input::Resume, two()).await;
        assert_eq!(log.take()[..2], ["n1", "n2"]);
    });
}
