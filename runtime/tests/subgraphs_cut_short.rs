//! Graphs inside that pause, ask side by side, run out of steps, or store once at their end. What is
//! expected was printed by the same graphs in Python on langgraph 1.2.9 with its InMemorySaver.
#![cfg(not(madsim))]

mod policies_support;
mod thread_support;

use durasim_runtime::channels::Reducer;
use durasim_runtime::graph::{Command, NodeOptions, Persistence, Send};
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::value;
use durasim_runtime::{Durability, END, NodeContext, NodeError, START, State, StateGraph, Update};
use policies_support::{BOTH, Log, config, graph, paused, says};
use serde_json::json;
use thread_support::{Bench, inner, input, looks};

fn noting(name: &'static str, log: &Log) -> impl Fn(State, NodeContext) -> Noted + use<> {
    let log = log.clone();
    move |_, _| {
        log.add(name);
        std::future::ready(Ok(says(name)))
    }
}

type Noted = std::future::Ready<Result<Update, NodeError>>;

fn shown() -> RunConfig {
    config(BOTH).subgraphs(true)
}

fn one() -> Input {
    input(json!({ "x": 1 }))
}

fn answer(word: &str) -> Input {
    Input::Command(Command::resume(word))
}

#[test]
fn a_static_interrupt_inside_pauses_all_around() {
    paused(async {
        for pauses in [
            |graph: StateGraph| graph.interrupt_before(&["b"]),
            |graph: StateGraph| graph.interrupt_after(&["a"]),
        ] {
            let log = Log::default();
            let two = graph("two").node("a", noting("a", &log)).node("b", noting("b", &log));
            let two = pauses(two.sequence(&[START, "a", "b", END]));
            let bench = Bench::new(graph("outer").subgraph("s", two).edge(START, "s"));
            let lines = bench.run(one(), shown()).await;
            assert_eq!(
                lines,
                [
                    r#"values {"log":[],"x":1}"#,
                    r#"s values {"log":[],"x":1}"#,
                    r#"s updates {"a":{"log":["a"]}}"#,
                    r#"s values {"log":["a"],"x":1}"#,
                    r#"updates {"__interrupt__":[]}"#,
                ]
            );
            let state = bench.graph.get_state_inside("t", None).await.unwrap();
            assert_eq!(state.tasks[0].interrupts.len(), 0);
            let inside = looks(state.tasks[0].inside.as_ref().unwrap());
            assert_eq!(inside, r#"loop 1 {"log":["a"],"x":1} ["b"]"#);
            let lines = bench.run(Input::Resume, shown()).await;
            assert_eq!(
                lines,
                [
                    r#"values {"log":[],"x":1}"#,
                    r#"s values {"log":["a"],"x":1}"#,
                    r#"s updates {"b":{"log":["b"]}}"#,
                    r#"s values {"log":["a","b"],"x":1}"#,
                    r#"updates {"s":{"log":["a","b"],"x":1}}"#,
                    r#"values {"log":["a","b"],"x":1}"#,
                ]
            );
            assert_eq!(log.take(), ["a", "b"]);
        }
    });
}

#[test]
fn graphs_side_by_side_ask_together_and_are_answered_by_id() {
    paused(async {
        let asks = |name: &'static str| {
            let node = move |_: State, context: NodeContext| async move {
                let answer = context.interrupt(format!("{name}?"))?;
                Ok::<_, NodeError>(Update::new().set("log", [value::to_json(&answer)]))
            };
            StateGraph::new(name)
                .reduced_key("log", Reducer::append())
                .node("q", node)
                .edge(START, "q")
        };
        let outer = StateGraph::new("outer")
            .reduced_key("log", Reducer::append())
            .subgraph("s1", asks("one"))
            .subgraph("s2", asks("two"))
            .edge(START, "s1")
            .edge(START, "s2");
        let bench = Bench::new(outer);
        let lines = bench.run(input(json!({ "log": [] })), shown()).await;
        let inside = |place: &str, question: &str| {
            [
                format!(r#"{place} values {{"log":[]}}"#),
                format!(r#"{place} updates {{"__interrupt__":[{{"value":"{question}"}}]}}"#),
                format!(
                    r#"{place} values {{"log":[],"__interrupt__":[{{"value":"{question}"}}]}}"#
                ),
            ]
        };
        assert_eq!(of_place(&lines, "s1 "), inside("s1", "one?"));
        assert_eq!(of_place(&lines, "s2 "), inside("s2", "two?"));
        const ONE_ASKS: [&str; 2] = [
            r#"updates {"__interrupt__":[{"value":"one?"}]}"#,
            r#"values {"log":[],"__interrupt__":[{"value":"one?"}]}"#,
        ];
        const TWO_ASKS: [&str; 2] = [
            r#"updates {"__interrupt__":[{"value":"two?"}]}"#,
            r#"values {"log":[],"__interrupt__":[{"value":"two?"}]}"#,
        ];
        const BEGUN: &str = r#"values {"log":[]}"#;
        assert_eq!(at_root(&lines), [&[BEGUN][..], &ONE_ASKS, &TWO_ASKS].concat());
        let state = bench.graph.get_state("t", None).await.unwrap();
        let ids: Vec<&str> = state.tasks.iter().map(|task| &*task.interrupts[0].1).collect();
        let by_id = |id: &str, word: &str| Input::Command(Command::new().answer(id, word));
        let refused = bench.run(answer("v"), shown()).await;
        assert!(refused[0].starts_with("! RuntimeError"), "{refused:?}");
        let lines = bench.run(by_id(ids[1], "B"), shown()).await;
        assert_eq!(of_place(&lines, "s1 "), inside("s1", "one?"));
        let answered = [
            r#"s2 values {"log":[]}"#,
            r#"s2 updates {"q":{"log":["B"]}}"#,
            r#"s2 values {"log":["B"]}"#,
        ];
        assert_eq!(of_place(&lines, "s2 "), answered);
        // Nor is whose end comes first.
        let mut root = at_root(&lines);
        root.sort();
        let mut expected =
            vec![BEGUN, r#"updates {"s2":{"log":["B"]}}"#, r#"values {"log":["B"]}"#];
        expected.extend(ONE_ASKS);
        expected.sort();
        assert_eq!(root, expected);
        // The question that was answered inside still counts as waiting: an answer for nobody in
        // particular is refused again.
        let refused = bench.run(answer("A"), shown()).await;
        assert!(refused[0].starts_with("! RuntimeError"), "{refused:?}");
        assert_eq!(
            bench.run(by_id(ids[0], "A"), shown()).await,
            [
                BEGUN,
                r#"updates {"s2":{"log":["B"]},"__metadata__":{"cached":true}}"#,
                r#"s1 values {"log":[]}"#,
                r#"s1 updates {"q":{"log":["A"]}}"#,
                r#"s1 values {"log":["A"]}"#,
                r#"updates {"s1":{"log":["A"]}}"#,
                r#"values {"log":["A","B"]}"#,
            ]
        );
    });
}

/// What a graph inside shows. How two of them interleave is not compared.
fn of_place<'l>(lines: &'l [String], place: &str) -> Vec<&'l str> {
    lines.iter().map(|line| &**line).filter(|line| line.starts_with(place)).collect()
}

fn at_root(lines: &[String]) -> Vec<&str> {
    let is_inside = |line: &&str| line.starts_with("s1 ") || line.starts_with("s2 ");
    lines.iter().map(|line| &**line).filter(|line| !is_inside(line)).collect()
}

#[test]
fn at_exit_each_graph_stores_once_when_it_is_cut_short() {
    paused(async {
        for persistence in [Persistence::PerCall, Persistence::PerThread, Persistence::Never] {
            let log = Log::default();
            let outer = StateGraph::new("outer").key("x");
            let outer = outer.subgraph("sub", inner(persistence, true, &log)).edge(START, "sub");
            let bench = Bench::new(outer);
            let exit = || config(BOTH).durability(Durability::Exit);
            bench.run(input(json!({ "x": 7 })), exit()).await;
            let sub = |row: &str| match persistence {
                Persistence::PerCall => vec![format!("#sub {row}")],
                Persistence::PerThread => vec![format!("sub {row}")],
                Persistence::Never => vec![],
            };
            let asked = sub(r#"loop 1 {"branch:to:b":null,"seen":["a"],"x":0}"#);
            let root = r#"loop 0 {"branch:to:sub":null,"x":7}"#.to_owned();
            let mut rows = bench.rows().await;
            rows.sort();
            let mut expected = [asked.clone(), vec![root.clone()]].concat();
            expected.sort();
            assert_eq!(rows, expected);
            let lines = bench.run(answer("yes"), exit()).await;
            assert_eq!(lines.last().unwrap(), r#"values {"x":0}"#);
            // A call that ends is kept only where the state is.
            let ended = match persistence {
                Persistence::PerThread => sub(r#"loop 2 {"seen":["a","yes"],"x":0}"#),
                _ => vec![],
            };
            let mut rows = bench.rows().await;
            rows.sort();
            let last = r#"loop 1 {"x":0}"#.to_owned();
            let mut expected = [asked, ended, vec![root, last]].concat();
            expected.sort();
            assert_eq!(rows, expected, "{persistence:?}");
        }
    });
}

#[test]
fn a_command_for_the_graph_around_goes_one_level_up() {
    paused(async {
        let log = Log::default();
        let sent = log.clone();
        let leaf = graph("leaf").node("leave", |_: State, _| async {
            let send = Send::new("b", value::from_json(json!({ "log": ["sent"] })));
            Ok::<_, NodeError>(Command::new().update(says("up")).goto(send).to_parent())
        });
        let mid = graph("mid")
            .subgraph_with(
                "leaf",
                NodeOptions::new().destinations(&["b"]),
                leaf.edge(START, "leave"),
            )
            .node("b", move |state: State, _| {
                sent.add(format!("mid b {}", value::to_json(&state.to_value())));
                async { Ok::<_, NodeError>(says("mid b")) }
            })
            .edge(START, "leaf");
        let outer = graph("outer").subgraph("mid", mid).node("b", noting("root b", &log));
        let bench = Bench::new(outer.edge(START, "mid"));
        let lines = bench.run(one(), shown()).await;
        assert_eq!(
            lines,
            [
                r#"values {"log":[],"x":1}"#,
                r#"mid values {"log":[],"x":1}"#,
                r#"mid|leaf values {"log":[],"x":1}"#,
                r#"mid updates {"leaf":{"log":["up"]}}"#,
                r#"mid values {"log":["up"],"x":1}"#,
                r#"mid updates {"b":{"log":["mid b"]}}"#,
                r#"mid values {"log":["up","mid b"],"x":1}"#,
                r#"updates {"mid":{"log":["up","mid b"],"x":1}}"#,
                r#"values {"log":["up","mid b"],"x":1}"#,
            ]
        );
        assert_eq!(log.take(), [r#"mid b {"log":["sent"]}"#]);
    });
}

#[test]
fn a_graph_inside_has_the_whole_limit_for_itself() {
    paused(async {
        let log = Log::default();
        let looping = graph("loop").node("a", noting("a", &log)).edge(START, "a").edge("a", "a");
        let bench = Bench::new(graph("outer").subgraph("s", looping).edge(START, "s"));
        let limited = RunConfig { recursion_limit: 3, ..config(BOTH) };
        let lines = bench.run(one(), limited).await;
        assert_eq!(lines.len(), 2);
        assert!(lines[1].starts_with("! GraphRecursionError"), "{lines:?}");
        assert_eq!(log.take(), ["a", "a", "a"]);
    });
}
