//! Graphs that a node runs by itself, with `NodeContext::invoke`. What is expected was printed by
//! the same graphs in Python on langgraph 1.2.9 (`await inner.ainvoke(..)` in a node).
#![cfg(not(madsim))]

mod policies_support;
mod thread_support;

use durasim_runtime::channels::Reducer;
use durasim_runtime::graph::{Command, Persistence};
use durasim_runtime::pregel::Input;
use durasim_runtime::value::from_value;
use durasim_runtime::{
    CompiledGraph, Doors, END, NodeContext, NodeError, START, State, StateGraph, Update, Value,
};
use policies_support::{BOTH, Log, config, paused};
use serde::Deserialize;
use serde_json::json;
use thread_support::{Bench, faithful, input};

/// `a` says its name; `b` asks, or says its name.
fn inner(persistence: Persistence, asks: bool, log: &Log) -> CompiledGraph {
    let (of_a, of_b) = (log.clone(), log.clone());
    let graph = StateGraph::new("inner")
        .key("x")
        .reduced_key("seen", Reducer::append())
        .node("a", move |_: State, _| {
            of_a.add("a");
            async { Ok::<_, NodeError>(Update::new().set("seen", ["a"])) }
        })
        .node("b", move |_: State, context: NodeContext| {
            let log = of_b.clone();
            async move {
                let word = match asks {
                    true => context.interrupt("q")?.as_str().unwrap_or_default().to_owned(),
                    false => "b".to_owned(),
                };
                log.add(format!("b {word}"));
                Ok::<_, NodeError>(Update::new().set("seen", [word]))
            }
        })
        .sequence(&[START, "a", "b", END])
        .persistence(persistence);
    graph.compile(None, &Doors::production(), faithful()).unwrap()
}

#[derive(Deserialize)]
struct Given {
    seen: Vec<String>,
}

fn words(given: &Value) -> Result<usize, NodeError> {
    let given: Given =
        from_value(given).map_err(|error| NodeError::failed("TypeError", error.to_string()))?;
    Ok(given.seen.len())
}

/// A node that runs one graph after the other, and writes how many words each gave back.
fn calls(first: CompiledGraph, second: CompiledGraph, log: &Log) -> StateGraph {
    let log = log.clone();
    StateGraph::new("outer")
        .key("x")
        .key("y")
        .node("n", move |_: State, context: NodeContext| {
            let (first, second) = (first.clone(), second.clone());
            log.add("n");
            async move {
                let first = words(&context.invoke(&first, &json!({ "x": 1 })).await?)?;
                let second = words(&context.invoke(&second, &json!({ "x": 2 })).await?)?;
                Ok::<_, NodeError>(Update::new().set("y", 10 * first + second))
            }
        })
        .sequence(&[START, "n", END])
}

fn answer(word: &str) -> Input {
    Input::Command(Command::resume(word))
}

fn turn() -> Input {
    input(json!({ "x": 7 }))
}

#[test]
fn the_second_call_of_a_node_has_a_number_in_its_namespace() {
    paused(async {
        for persistence in [Persistence::PerCall, Persistence::PerThread, Persistence::Never] {
            let log = Log::default();
            let graph = inner(persistence, false, &log);
            let bench = Bench::new(calls(graph.clone(), graph, &log));
            let first = bench.run(turn(), config(BOTH)).await;
            let lines =
                [r#"values {"x":7}"#, r#"updates {"n":{"y":22}}"#, r#"values {"x":7,"y":22}"#];
            assert_eq!(first, lines, "{persistence:?}");
            let second = bench.run(turn(), config(BOTH)).await;
            let is_kept = persistence == Persistence::PerThread;
            let last = if is_kept { r#"values {"x":7,"y":44}"# } else { lines[2] };
            assert_eq!(second.last().unwrap(), last);
            let rows = bench.rows().await;
            let in_namespace = |place: &str| {
                let rows = rows.iter().filter_map(|row| row.strip_prefix(place));
                rows.map(|row| row.split(" {").next().unwrap()).collect::<Vec<_>>()
            };
            let call = ["input -1", "loop 0", "loop 1", "loop 2"];
            let next = ["input 3", "loop 4", "loop 5", "loop 6"];
            let found = ["#n ", "#n|1 ", "n ", "n|1 "].map(in_namespace);
            let none = Vec::new;
            let expected = match persistence {
                Persistence::PerCall => {
                    [[call, call].concat(), [call, call].concat(), none(), none()]
                }
                Persistence::PerThread => {
                    [none(), none(), [call, next].concat(), [call, next].concat()]
                }
                Persistence::Never => [none(), none(), none(), none()],
            };
            assert_eq!(found, expected, "{persistence:?}");
        }
    });
}

const FIRST: [&str; 5] = [
    r#"n values {"x":1,"seen":[]}"#,
    r#"n updates {"a":{"seen":["a"]}}"#,
    r#"n values {"x":1,"seen":["a"]}"#,
    r#"n updates {"b":{"seen":["b"]}}"#,
    r#"n values {"x":1,"seen":["a","b"]}"#,
];
const SECOND: [&str; 3] = [
    r#"n|1 values {"x":2,"seen":[]}"#,
    r#"n|1 updates {"a":{"seen":["a"]}}"#,
    r#"n|1 values {"x":2,"seen":["a"]}"#,
];
const ASKED: [&str; 4] = [
    r#"n|1 updates {"__interrupt__":[{"value":"q"}]}"#,
    r#"n|1 values {"x":2,"seen":["a"],"__interrupt__":[{"value":"q"}]}"#,
    r#"updates {"__interrupt__":[{"value":"q"}]}"#,
    r#"values {"x":7,"__interrupt__":[{"value":"q"}]}"#,
];
const ANSWERED: [&str; 4] = [
    r#"n|1 updates {"b":{"seen":["yes"]}}"#,
    r#"n|1 values {"x":2,"seen":["a","yes"]}"#,
    r#"updates {"n":{"y":22}}"#,
    r#"values {"x":7,"y":22}"#,
];

#[test]
fn a_question_in_the_second_graph_does_not_run_the_first_again() {
    paused(async {
        for persistence in [Persistence::PerCall, Persistence::PerThread, Persistence::Never] {
            let log = Log::default();
            let (silent, asking) =
                (inner(persistence, false, &log), inner(persistence, true, &log));
            let bench = Bench::new(calls(silent, asking, &log));
            let shown = || config(BOTH).subgraphs(true);
            let begins = [r#"values {"x":7}"#];
            let asked = bench.run(turn(), shown()).await;
            assert_eq!(asked, [&begins[..], &FIRST, &SECOND, &ASKED].concat(), "{persistence:?}");
            assert_eq!(log.take(), ["n", "a", "b b", "a"]);
            let resumed = bench.run(answer("yes"), shown()).await;
            if persistence == Persistence::Never {
                assert_eq!(resumed, [&begins[..], &FIRST, &SECOND, &ANSWERED].concat());
                assert_eq!(log.take(), ["n", "a", "b b", "a", "b yes"]);
            } else {
                let goes_on = [&begins[..], &FIRST[4..], &SECOND[2..], &ANSWERED].concat();
                assert_eq!(resumed, goes_on, "{persistence:?}");
                assert_eq!(log.take(), ["n", "b yes"]);
            }
        }
    });
}

#[test]
fn two_questions_of_two_graphs_in_one_node_take_an_answer_each() {
    paused(async {
        let log = Log::default();
        let graph = || inner(Persistence::PerCall, true, &log);
        let bench = Bench::new(calls(graph(), graph(), &log));
        bench.run(turn(), config(BOTH)).await;
        assert_eq!(log.take(), ["n", "a"]);
        let asked = bench.run(answer("one"), config(BOTH)).await;
        assert_eq!(asked.last().unwrap(), ASKED[3]);
        assert_eq!(log.take(), ["n", "b one", "a"]);
        let ended = bench.run(answer("two"), config(BOTH)).await;
        assert_eq!(ended.last().unwrap(), ANSWERED[3]);
        assert_eq!(log.take(), ["n", "b two"]);
        let rows = bench.rows().await;
        let ends = ["#n loop 2 ", "#n|1 loop 2 "]
            .map(|place| rows.iter().find_map(|row| row.strip_prefix(place)).unwrap().to_owned());
        assert_eq!(ends, [r#"{"seen":["a","one"],"x":1}"#, r#"{"seen":["a","two"],"x":2}"#]);
    });
}
