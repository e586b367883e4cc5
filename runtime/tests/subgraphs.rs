//! Graphs that are nodes of another: what they keep, what they show, how they go on when they were
//! cut short. What is expected was printed by the same graphs in Python on langgraph 1.2.9 with its
//! InMemorySaver, `checkpointer=None`, `True` and `False` for the three kinds of persistence.
#![cfg(not(madsim))]

mod policies_support;
mod thread_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use durasim_runtime::channels::Reducer;
use durasim_runtime::checkpoint::saver::ListFilter;
use durasim_runtime::graph::{Command, NodeOptions, Persistence};
use durasim_runtime::pregel::{Input, RunConfig, StateSnapshot};
use durasim_runtime::profile::FinishedSiblings;
use durasim_runtime::{END, NodeContext, NodeError, Options, START, State, StateGraph, Update};
use policies_support::{BOTH, Log, boom, config, ms, paused};
use serde_json::json;
use thread_support::{Bench, faithful, inner, input, looks, names};

fn around(node: &str, graph: StateGraph) -> StateGraph {
    StateGraph::new("outer").key("x").key("y").subgraph(node, graph).sequence(&[START, node, END])
}

fn shown() -> RunConfig {
    config(BOTH).subgraphs(true)
}

fn answer(word: &str) -> Input {
    Input::Command(Command::resume(word))
}

fn turn() -> Input {
    input(json!({ "x": 7 }))
}

#[test]
fn each_call_begins_anew_unless_it_is_kept_by_thread() {
    paused(async {
        for persistence in [Persistence::PerCall, Persistence::PerThread, Persistence::Never] {
            let log = Log::default();
            let bench = Bench::new(around("sub", inner(persistence, false, &log)));
            let first = bench.run(turn(), config(BOTH)).await;
            let lines = [r#"values {"x":7}"#, r#"updates {"sub":{"x":0}}"#, r#"values {"x":0}"#];
            assert_eq!(first, lines, "{persistence:?}");
            let second = bench.run(turn(), config(BOTH)).await;
            let rows = bench.rows().await;
            let inside: Vec<&str> = rows.iter().skip(6).map(|row| &**row).collect();
            match persistence {
                Persistence::PerCall => {
                    assert_eq!(second, lines);
                    let call = [
                        r##"#sub input -1 {"__start__":{"x":7}}"##,
                        r##"#sub loop 0 {"branch:to:a":null,"x":7}"##,
                        r##"#sub loop 1 {"branch:to:b":null,"seen":["a"],"x":0}"##,
                        r##"#sub loop 2 {"seen":["a","b"],"x":0}"##,
                    ];
                    assert_eq!(inside, [call, call].concat());
                }
                Persistence::PerThread => {
                    let grown = [lines[0], r#"updates {"sub":{"x":2}}"#, r#"values {"x":2}"#];
                    assert_eq!(second, grown);
                    assert_eq!(
                        inside,
                        [
                            r#"sub input -1 {"__start__":{"x":7}}"#,
                            r#"sub loop 0 {"branch:to:a":null,"x":7}"#,
                            r#"sub loop 1 {"branch:to:b":null,"seen":["a"],"x":0}"#,
                            r#"sub loop 2 {"seen":["a","b"],"x":0}"#,
                            r#"sub input 3 {"__start__":{"x":7},"seen":["a","b"],"x":0}"#,
                            r#"sub loop 4 {"branch:to:a":null,"seen":["a","b"],"x":7}"#,
                            r#"sub loop 5 {"branch:to:b":null,"seen":["a","b","a"],"x":2}"#,
                            r#"sub loop 6 {"seen":["a","b","a","b"],"x":2}"#,
                        ]
                    );
                }
                Persistence::Never => {
                    assert_eq!(second, lines);
                    assert_eq!(inside, [""; 0]);
                }
            }
            assert_eq!(log.take(), ["a", "b b", "a", "b b"]);
        }
    });
}

#[test]
fn a_call_that_asked_goes_on_where_it_stood_unless_nothing_is_kept() {
    const ASKED: [&str; 8] = [
        r#"values {"x":7}"#,
        r#"sub values {"x":7,"seen":[]}"#,
        r#"sub updates {"a":{"x":0,"seen":["a"]}}"#,
        r#"sub values {"x":0,"seen":["a"]}"#,
        r#"sub updates {"__interrupt__":[{"value":"q"}]}"#,
        r#"sub values {"x":0,"seen":["a"],"__interrupt__":[{"value":"q"}]}"#,
        r#"updates {"__interrupt__":[{"value":"q"}]}"#,
        r#"values {"x":7,"__interrupt__":[{"value":"q"}]}"#,
    ];
    const ANSWERED: [&str; 5] = [
        r#"sub values {"x":0,"seen":["a"]}"#,
        r#"sub updates {"b":{"seen":["yes"]}}"#,
        r#"sub values {"x":0,"seen":["a","yes"]}"#,
        r#"updates {"sub":{"x":0}}"#,
        r#"values {"x":0}"#,
    ];
    paused(async {
        for persistence in [Persistence::PerCall, Persistence::PerThread, Persistence::Never] {
            let log = Log::default();
            let bench = Bench::new(around("sub", inner(persistence, true, &log)));
            assert_eq!(bench.run(turn(), shown()).await, ASKED, "{persistence:?}");
            assert_eq!(log.take(), ["a"]);
            let resumed = bench.run(answer("yes"), shown()).await;
            let begins_anew = persistence == Persistence::Never;
            let goes_on = if begins_anew { &ASKED[..3] } else { &ASKED[..1] };
            assert_eq!(resumed, [goes_on, &ANSWERED].concat(), "{persistence:?}");
            assert_eq!(log.take(), if begins_anew { vec!["a", "b yes"] } else { vec!["b yes"] });
        }
    });
}

#[test]
fn what_waits_inside_is_shown_when_it_is_asked_for() {
    paused(async {
        for persistence in [Persistence::PerCall, Persistence::PerThread, Persistence::Never] {
            let bench = Bench::new(around("sub", inner(persistence, true, &Log::default())));
            bench.run(turn(), config(BOTH)).await;
            let plain = bench.graph.get_state("t", None).await.unwrap();
            assert_eq!(plain.tasks[0].inside, None);
            let whole = bench.graph.get_state_inside("t", None).await.unwrap();
            assert_eq!(looks(&whole), r#"loop 0 {"x":7} ["sub"]"#);
            let inside = whole.tasks[0].inside.as_deref().map(looks);
            match persistence {
                // langgraph 1.2.9: the task's state is None.
                Persistence::Never => assert_eq!(inside, None),
                _ => assert_eq!(inside.unwrap(), r#"loop 1 {"x":0,"seen":["a"]} ["b"]"#),
            }
        }
    });
}

#[test]
fn two_levels_deep_a_question_reaches_the_root_and_its_answer_the_node() {
    paused(async {
        let log = Log::default();
        let noted = log.clone();
        let mid = StateGraph::new("mid")
            .key("x")
            .key("y")
            .subgraph("inner", inner(Persistence::PerCall, true, &log))
            .node("after", move |_: State, _| {
                noted.add("after");
                async { Ok::<_, NodeError>(Update::new().set("y", 5)) }
            })
            .sequence(&[START, "inner", "after", END]);
        let bench = Bench::new(around("mid", mid));
        let asked = bench.run(turn(), shown()).await;
        assert_eq!(
            asked,
            [
                r#"values {"x":7}"#,
                r#"mid values {"x":7}"#,
                r#"mid|inner values {"x":7,"seen":[]}"#,
                r#"mid|inner updates {"a":{"x":0,"seen":["a"]}}"#,
                r#"mid|inner values {"x":0,"seen":["a"]}"#,
                r#"mid|inner updates {"__interrupt__":[{"value":"q"}]}"#,
                r#"mid|inner values {"x":0,"seen":["a"],"__interrupt__":[{"value":"q"}]}"#,
                r#"mid updates {"__interrupt__":[{"value":"q"}]}"#,
                r#"mid values {"x":7,"__interrupt__":[{"value":"q"}]}"#,
                r#"updates {"__interrupt__":[{"value":"q"}]}"#,
                r#"values {"x":7,"__interrupt__":[{"value":"q"}]}"#,
            ]
        );
        let whole = bench.graph.get_state_inside("t", None).await.unwrap();
        let mut levels = vec![];
        let mut level: Option<&StateSnapshot> = Some(&whole);
        while let Some(state) = level {
            let parents = state.metadata.as_ref().unwrap().parents.keys();
            let parents: Vec<String> = parents.map(|ns| names(ns)).collect();
            let questions = state.tasks[0].interrupts.iter().map(|(q, _)| q.to_string());
            levels.push((looks(state), parents, questions.collect::<Vec<_>>()));
            level = state.tasks[0].inside.as_deref();
        }
        let of = |looks: &str, parents: &[&str]| {
            let parents = parents.iter().map(|ns| ns.to_string()).collect::<Vec<_>>();
            (looks.to_owned(), parents, vec!["\"q\"".to_owned()])
        };
        let expected = [
            of(r#"loop 0 {"x":7} ["mid"]"#, &[]),
            of(r#"loop 0 {"x":7} ["inner"]"#, &[""]),
            of(r#"loop 1 {"x":0,"seen":["a"]} ["b"]"#, &["", "mid "]),
        ];
        assert_eq!(levels, expected);
        let resumed = bench.run(answer("yes"), shown()).await;
        assert_eq!(
            resumed,
            [
                r#"values {"x":7}"#,
                r#"mid values {"x":7}"#,
                r#"mid|inner values {"x":0,"seen":["a"]}"#,
                r#"mid|inner updates {"b":{"seen":["yes"]}}"#,
                r#"mid|inner values {"x":0,"seen":["a","yes"]}"#,
                r#"mid updates {"inner":{"x":0}}"#,
                r#"mid values {"x":0}"#,
                r#"mid updates {"after":{"y":5}}"#,
                r#"mid values {"x":0,"y":5}"#,
                r#"updates {"mid":{"x":0,"y":5}}"#,
                r#"values {"x":0,"y":5}"#,
            ]
        );
        assert_eq!(log.take(), ["a", "b yes", "after"]);
    });
}

#[test]
fn a_graph_that_keeps_nothing_leaves_those_inside_what_they_keep() {
    paused(async {
        let log = Log::default();
        let mid = around("inner", inner(Persistence::PerCall, true, &log));
        let bench = Bench::new(around("mid", mid.persistence(Persistence::Never)));
        bench.run(turn(), config(BOTH)).await;
        let resumed = bench.run(answer("yes"), config(BOTH)).await;
        assert_eq!(resumed.last().unwrap(), r#"values {"x":0}"#);
        // The call begins anew, and so it has other task ids.
        assert_eq!(log.take(), ["a", "a", "b yes"]);
        let rows = bench.rows().await;
        let call = [
            r##"#mid|inner input -1 {"__start__":{"x":7}}"##,
            r##"#mid|inner loop 0 {"branch:to:a":null,"x":7}"##,
            r##"#mid|inner loop 1 {"branch:to:b":null,"seen":["a"],"x":0}"##,
            r##"#mid|inner loop 2 {"seen":["a","yes"],"x":0}"##,
        ];
        assert_eq!(rows[3..], [&call[..3], &call[..]].concat());
    });
}

#[test]
fn the_history_inside_is_found_by_its_namespace() {
    paused(async {
        for persistence in [Persistence::PerCall, Persistence::PerThread] {
            let bench = Bench::new(around("sub", inner(persistence, true, &Log::default())));
            bench.run(turn(), config(BOTH)).await;
            let all = bench.saver.list("t", None, ListFilter::default()).await.unwrap();
            let inside = all.iter().find(|tuple| !tuple.key.namespace.is_empty()).unwrap();
            let namespace = inside.key.namespace.clone();
            assert_eq!(namespace.contains(':'), persistence == Persistence::PerCall);
            let look = |filter| bench.graph.get_state_history_inside("t", &namespace, filter);
            let found = look(ListFilter::default()).await.unwrap();
            let found: Vec<String> = found.iter().map(looks).collect();
            assert_eq!(
                found,
                [
                    r#"loop 1 {"x":0,"seen":["a"]} ["b"]"#,
                    r#"loop 0 {"x":7,"seen":[]} ["a"]"#,
                    r#"input -1 {"seen":[]} ["__start__"]"#,
                ]
            );
            let filter = ListFilter { limit: Some(1), ..ListFilter::default() };
            assert_eq!(look(filter).await.unwrap().len(), 1);
        }
        // langgraph 1.2.9: `ValueError: Subgraph sub not found`.
        let bench = Bench::new(around("sub", inner(Persistence::Never, true, &Log::default())));
        bench.run(turn(), config(BOTH)).await;
        let look = bench.graph.get_state_history_inside("t", "sub:1", ListFilter::default());
        assert_eq!(look.await.unwrap_err().class(), "ValueError");
    });
}

#[test]
fn a_graph_inside_takes_its_input_keys_and_gives_its_output_keys() {
    paused(async {
        let log = Log::default();
        let noted = log.clone();
        let inner = StateGraph::new("inner")
            .key("x")
            .key("y")
            .key("z")
            .input_keys(&["x"])
            .output_keys(&["y"])
            .node("k", move |state: State, _| {
                noted.add(state.keys().collect::<Vec<_>>().join(" "));
                async move {
                    let y = state.get::<u64>("x")? + 1;
                    Ok::<_, NodeError>(Update::new().set("y", y).set("z", 9).set("x", 100))
                }
            })
            .sequence(&[START, "k", END]);
        let outer = StateGraph::new("outer")
            .key("x")
            .key("y")
            .key("z")
            .node("seed", |_: State, _| async {
                Ok::<_, NodeError>(Update::new().set("x", 1).set("z", 3))
            })
            .subgraph("s", inner)
            .sequence(&[START, "seed", "s", END]);
        let bench = Bench::new(outer);
        let lines = bench.run(turn(), shown()).await;
        assert_eq!(
            lines,
            [
                r#"values {"x":7}"#,
                r#"updates {"seed":{"x":1,"z":3}}"#,
                r#"values {"x":1,"z":3}"#,
                r#"s updates {"k":{"y":2}}"#,
                r#"s values {"y":2}"#,
                r#"updates {"s":{"y":2}}"#,
                r#"values {"x":1,"y":2,"z":3}"#,
            ]
        );
        assert_eq!(log.take(), ["x"]);
        let rows = bench.rows().await;
        let inside = [
            r##"#s input -1 {"__start__":{"x":1,"z":3}}"##,
            r##"#s loop 0 {"branch:to:k":null,"x":1}"##,
            r##"#s loop 1 {"x":100,"y":2,"z":9}"##,
        ];
        assert_eq!(rows[rows.len() - 3..], inside);
    });
}

/// `ok` finishes, then `bad` fails for the first time.
fn siblings(log: &Log) -> StateGraph {
    let (of_ok, of_bad, failures) = (log.clone(), log.clone(), Arc::new(AtomicU32::new(0)));
    StateGraph::new("siblings")
        .reduced_key("log", Reducer::append())
        .node("ok", move |_: State, _| {
            of_ok.add("ok");
            async { Ok::<_, NodeError>(Update::new().set("log", ["ok"])) }
        })
        .node("bad", move |_: State, context: NodeContext| {
            let (log, failures) = (of_bad.clone(), failures.clone());
            async move {
                context.sleep(ms(10)).await;
                log.add("bad");
                match failures.fetch_add(1, Ordering::Relaxed) {
                    0 => Err(boom()),
                    _ => Ok(Update::new().set("log", ["bad"])),
                }
            }
        })
        .edge(START, "ok")
        .edge(START, "bad")
}

#[test]
fn a_finished_sibling_inside_runs_again_or_is_kept() {
    let resumed = async |finished_siblings, is_inside: bool| {
        let log = Log::default();
        let graph = match is_inside {
            false => siblings(&log),
            true => StateGraph::new("outer")
                .reduced_key("log", Reducer::append())
                .subgraph("s", siblings(&log))
                .edge(START, "s"),
        };
        let bench = Bench::with(graph, Options { finished_siblings, ..faithful() });
        let first = bench.run(input(json!({ "log": [] })), config(BOTH)).await;
        assert_eq!(first.last().unwrap(), "! ValueError: boom");
        assert_eq!(log.take(), ["ok", "bad"]);
        let second = bench.run(Input::Resume, config(BOTH)).await;
        assert_eq!(second.last().unwrap(), r#"values {"log":["bad","ok"]}"#);
        log.take()
    };
    paused(async {
        // langgraph 1.2.9: inside, both run again; at the root, only the one that failed.
        assert_eq!(resumed(FinishedSiblings::RunAgain, true).await, ["ok", "bad"]);
        assert_eq!(resumed(FinishedSiblings::RunAgain, false).await, ["bad"]);
        assert_eq!(resumed(FinishedSiblings::Kept, true).await, ["bad"]);
        assert_eq!(resumed(FinishedSiblings::Kept, false).await, ["bad"]);
    });
}

#[test]
fn a_node_inside_commands_the_graph_around() {
    for update in [Update::new().set("y", 3), Update::new()] {
        paused(async move {
            let log = Log::default();
            let noting = |word: &'static str| {
                let log = log.clone();
                move |_: State, _: NodeContext| {
                    log.add(word);
                    async { Ok::<_, NodeError>(Update::new()) }
                }
            };
            let is_empty = update == Update::new();
            let leave = log.clone();
            let inner = StateGraph::new("inner")
                .key("x")
                .key("y")
                .node("first", |_: State, _| async {
                    Ok::<_, NodeError>(Update::new().set("x", 50))
                })
                .node("leave", move |_: State, _| {
                    leave.add("leave");
                    let update = update.clone();
                    async move {
                        Ok::<_, NodeError>(Command::new().update(update).goto("b").to_parent())
                    }
                })
                .node("never", noting("never"))
                .sequence(&[START, "first", "leave", "never", END]);
            let outer = StateGraph::new("outer")
                .key("x")
                .key("y")
                .subgraph_with("s", NodeOptions::new().destinations(&["b"]), inner)
                .node("b", noting("b"))
                .node("c", noting("c"))
                .sequence(&[START, "s", "c", END]);
            let bench = Bench::new(outer);
            let lines = bench.run(turn(), shown()).await;
            // What the graph inside had written is not given back, and the node's edges are
            // followed as well.
            let mut expected = vec![
                r#"values {"x":7}"#,
                r#"s values {"x":7}"#,
                r#"s updates {"first":{"x":50}}"#,
                r#"s values {"x":50}"#,
            ];
            match is_empty {
                true => expected.push(r#"updates {"s":null}"#),
                false => {
                    expected.extend([r#"updates {"s":{"y":3}}"#, r#"values {"x":7,"y":3}"#]);
                }
            }
            expected.extend([r#"updates {"b":null}"#, r#"updates {"c":null}"#]);
            assert_eq!(lines, expected);
            assert_eq!(log.take(), ["leave", "b", "c"]);
            let rows = bench.rows().await;
            assert_eq!(rows.last().unwrap(), r##"#s loop 1 {"branch:to:leave":null,"x":50}"##);
        });
    }
}
