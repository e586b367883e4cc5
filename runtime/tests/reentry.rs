//! How a run starts on a thread that is there already: in the middle or at START, at the head or at
//! an older checkpoint. What is expected was printed by the same graphs in Python on langgraph
//! 1.2.9, and is the same with both savers.
#![cfg(not(madsim))]

mod checkpoint_support;
mod policies_support;
mod thread_support;

use std::sync::Arc;

use checkpoint_support::{TestFile, block_on};
use durasim_runtime::channels::Reducer;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{ListFilter, Saver};
use durasim_runtime::checkpoint::sqlite::SqliteSaver;
use durasim_runtime::graph::Command;
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{Doors, END, NodeContext, NodeError, START, State, StateGraph, Update};
use policies_support::{BOTH, Log, config};
use serde_json::json;
use thread_support::{Bench, faithful, input};

/// `a`, then `ask`, which may ask, then `c`. Each notes that it ran.
fn line(asks: bool, log: &Log) -> StateGraph {
    let says = |name: &'static str| {
        let log = log.clone();
        move |_: State, _: NodeContext| {
            log.add(name);
            async move { Ok::<_, NodeError>(Update::new().set("log", [name])) }
        }
    };
    let asking = log.clone();
    let graph = StateGraph::new("line")
        .key("x")
        .reduced_key("log", Reducer::append())
        .node("a", says("a"))
        .node("c", says("c"))
        .sequence(&[START, "a", "ask", "c", END]);
    match asks {
        false => graph.node("ask", says("ask")),
        true => graph.node("ask", move |_: State, context: NodeContext| {
            let log = asking.clone();
            async move {
                let answer = context.interrupt("q?")?;
                let word = format!("ask {}", answer.as_str().unwrap_or_default());
                log.add(&word);
                Ok::<_, NodeError>(Update::new().set("log", [word]))
            }
        }),
    }
}

/// Runs a test on each saver.
fn on_each_saver(name: &str, graph: impl Fn(&Log) -> StateGraph, test: impl AsyncFn(Bench, Log)) {
    block_on(async {
        let doors = Doors::production();
        let file = TestFile::new(name);
        let sqlite = SqliteSaver::open(file.path(), &doors).await.unwrap();
        let memory: Arc<dyn Saver> = Arc::new(MemorySaver::new(&doors));
        for saver in [memory, sqlite] {
            let log = Log::default();
            test(Bench::on(saver, graph(&log), faithful()), log).await;
        }
    });
}

fn at(checkpoint: Arc<str>) -> RunConfig {
    config(BOTH).checkpoint(checkpoint)
}

fn answer(word: &str) -> Input {
    Input::Command(Command::resume(word))
}

fn turn(x: u64) -> Input {
    input(json!({ "x": x }))
}

const RAN: [&str; 7] = [
    r#"values {"x":1,"log":[]}"#,
    r#"updates {"a":{"log":["a"]}}"#,
    r#"values {"x":1,"log":["a"]}"#,
    r#"updates {"ask":{"log":["ask"]}}"#,
    r#"values {"x":1,"log":["a","ask"]}"#,
    r#"updates {"c":{"log":["c"]}}"#,
    r#"values {"x":1,"log":["a","ask","c"]}"#,
];
const PAUSED: &str = r#"updates {"__interrupt__":[]}"#;

#[test]
fn a_run_id_that_is_said_again_goes_on_and_ignores_the_input() {
    let graph = |log: &Log| line(false, log).interrupt_before(&["c"]);
    on_each_saver("same_run", graph, async |bench, log| {
        let of_run = |id: &str| config(BOTH).configurable("run_id", id);
        let first = bench.run(turn(1), of_run("r1")).await;
        assert_eq!(first, [&RAN[..5], &[PAUSED]].concat());
        assert_eq!(log.take(), ["a", "ask"]);
        let again = bench.run(turn(2), of_run("r1")).await;
        assert_eq!(again, RAN[4..]);
        assert_eq!(log.take(), ["c"]);
        let head = bench.graph.get_state("t", None).await.unwrap();
        assert_eq!(head.metadata.unwrap().extra["run_id"], "r1");
        // A run that has finished has nothing to go on with.
        assert_eq!(bench.run(turn(3), of_run("r1")).await, RAN[6..]);
        assert_eq!(log.take(), [""; 0]);
        assert_eq!(bench.ids().await.len(), 5);
    });
}

#[test]
fn another_run_id_begins_a_new_turn() {
    let graph = |log: &Log| line(false, log).interrupt_before(&["c"]);
    on_each_saver("other_run", graph, async |bench, log| {
        let of_run = |id: &str| config(BOTH).configurable("run_id", id);
        bench.run(turn(1), of_run("r1")).await;
        let second = bench.run(turn(2), of_run("r2")).await;
        assert_eq!(
            second,
            [
                r#"values {"x":2,"log":["a","ask"]}"#,
                r#"updates {"a":{"log":["a"]}}"#,
                r#"values {"x":2,"log":["a","ask","a"]}"#,
                r#"updates {"ask":{"log":["ask"]}}"#,
                r#"values {"x":2,"log":["a","ask","a","ask"]}"#,
                PAUSED,
            ]
        );
        assert_eq!(log.take(), ["a", "ask", "a", "ask"]);
        let history = bench.history(ListFilter::default()).await;
        assert_eq!(
            history[..5],
            [
                r#"c7 <- c6 loop 6 {"x":2,"log":["a","ask","a","ask"]} ["c"]"#,
                r#"c6 <- c5 loop 5 {"x":2,"log":["a","ask","a"]} ["ask"]"#,
                r#"c5 <- c4 loop 4 {"x":2,"log":["a","ask"]} ["a"]"#,
                r#"c4 <- c3 input 3 {"x":1,"log":["a","ask"]} ["__start__"]"#,
                r#"c3 <- c2 loop 2 {"x":1,"log":["a","ask"]} ["c"]"#,
            ]
        );
        let by_run = async |id: &str| {
            let metadata = json!({ "run_id": id }).as_object().unwrap().clone();
            let filter = ListFilter { metadata, ..ListFilter::default() };
            bench.graph.get_state_history("t", filter).await.unwrap().len()
        };
        assert_eq!([by_run("r1").await, by_run("r2").await], [4, 4]);
    });
}

const ASKED: [&str; 5] = [
    RAN[0],
    RAN[1],
    RAN[2],
    r#"updates {"__interrupt__":[{"value":"q?"}]}"#,
    r#"values {"x":1,"log":["a"],"__interrupt__":[{"value":"q?"}]}"#,
];
const ANSWERED: [&str; 5] = [
    RAN[2],
    r#"updates {"ask":{"log":["ask yes"]}}"#,
    r#"values {"x":1,"log":["a","ask yes"]}"#,
    r#"updates {"c":{"log":["c"]}}"#,
    r#"values {"x":1,"log":["a","ask yes","c"]}"#,
];

/// langgraph#7361: the head's own id is no time travel for an answer.
#[test]
fn an_answer_at_the_heads_id_answers_and_is_not_asked_again() {
    on_each_saver(
        "answer_at_head",
        |log| line(true, log),
        async |bench, log| {
            assert_eq!(bench.run(turn(1), config(BOTH)).await, ASKED);
            let head = bench.id(2).await;
            assert_eq!(bench.run(answer("yes"), at(head.clone())).await, ANSWERED);
            assert_eq!(log.take(), ["a", "ask yes", "c"]);
            let answered = [
                r#"c4 <- c3 loop 3 {"x":1,"log":["a","ask yes","c"]} []"#,
                r#"c3 <- c2 loop 2 {"x":1,"log":["a","ask yes"]} ["c"]"#,
                r#"c2 <- c1 loop 1 {"x":1,"log":["a"]} ["ask"]"#,
                r#"c1 <- c0 loop 0 {"x":1,"log":[]} ["a"]"#,
                r#"c0 <- - input -1 {"log":[]} ["__start__"]"#,
            ];
            assert_eq!(bench.history(ListFilter::default()).await, answered);
            // Once more at the same checkpoint, which is not the head any more: the question was
            // answered there, and the first answer counts.
            assert_eq!(bench.run(answer("no"), at(head.clone())).await, ANSWERED);
            assert_eq!(log.take(), ["ask yes", "c"]);
            let branch = [
                r#"c6 <- c5 loop 3 {"x":1,"log":["a","ask yes","c"]} []"#,
                r#"c5 <- c2 loop 2 {"x":1,"log":["a","ask yes"]} ["c"]"#,
            ];
            assert_eq!(
                bench.history(ListFilter::default()).await,
                [&branch[..], &answered].concat()
            );
            // Going back there without an answer asks again, on a fork.
            assert_eq!(bench.run(Input::Resume, at(head)).await, ASKED[2..]);
            assert_eq!(log.take(), [""; 0]);
            let history = bench.history(ListFilter::default()).await;
            assert_eq!(history[0], r#"c7 <- c2 fork 2 {"x":1,"log":["a"]} ["ask"]"#);
            assert_eq!(history.len(), 8);
        },
    );
}

#[test]
fn an_answer_at_a_checkpoint_before_the_question_asks_again() {
    on_each_saver(
        "answer_before",
        |log| line(true, log),
        async |bench, log| {
            bench.run(turn(1), config(BOTH)).await;
            assert_eq!(bench.run(answer("yes"), at(bench.id(1).await)).await, ASKED);
            assert_eq!(log.take(), ["a", "a"]);
            let history = bench.history(ListFilter::default()).await;
            assert_eq!(
                history[..3],
                [
                    r#"c3 <- c1 loop 1 {"x":1,"log":["a"]} ["ask"]"#,
                    r#"c2 <- c1 loop 1 {"x":1,"log":["a"]} ["ask"]"#,
                    r#"c1 <- c0 loop 0 {"x":1,"log":[]} ["a"]"#,
                ]
            );
            // It waits on the new branch, and may be answered there.
            let ended = bench.run(answer("late"), config(BOTH)).await;
            assert_eq!(ended.last().unwrap(), r#"values {"x":1,"log":["a","ask late","c"]}"#);
        },
    );
}

#[test]
fn going_on_at_an_older_checkpoint_forks() {
    on_each_saver(
        "forks",
        |log| line(false, log),
        async |bench, log| {
            assert_eq!(bench.run(turn(1), config(BOTH)).await, RAN);
            let before = bench.history(ListFilter::default()).await;
            assert_eq!(bench.run(Input::Resume, at(bench.id(2).await)).await, RAN[2..]);
            assert_eq!(log.take(), ["a", "ask", "c", "ask", "c"]);
            let branch = [
                r#"c7 <- c6 loop 4 {"x":1,"log":["a","ask","c"]} []"#,
                r#"c6 <- c5 loop 3 {"x":1,"log":["a","ask"]} ["c"]"#,
                r#"c5 <- c2 fork 2 {"x":1,"log":["a"]} ["ask"]"#,
            ];
            let branch: Vec<String> = branch.map(str::to_owned).to_vec();
            assert_eq!(bench.history(ListFilter::default()).await, [branch, before].concat());
        },
    );
}

#[test]
fn a_new_input_at_an_older_checkpoint_is_its_child() {
    on_each_saver(
        "input_at_old",
        |log| line(false, log),
        async |bench, log| {
            bench.run(turn(1), config(BOTH)).await;
            let before = bench.history(ListFilter::default()).await;
            let lines = bench.run(turn(2), at(bench.id(2).await)).await;
            assert_eq!(lines[0], r#"values {"x":2,"log":["a"]}"#);
            assert_eq!(lines.last().unwrap(), r#"values {"x":2,"log":["a","a","ask","c"]}"#);
            assert_eq!(log.take(), ["a", "ask", "c", "a", "ask", "c"]);
            let branch = [
                r#"c9 <- c8 loop 6 {"x":2,"log":["a","a","ask","c"]} []"#,
                r#"c8 <- c7 loop 5 {"x":2,"log":["a","a","ask"]} ["c"]"#,
                r#"c7 <- c6 loop 4 {"x":2,"log":["a","a"]} ["ask"]"#,
                r#"c6 <- c5 loop 3 {"x":2,"log":["a"]} ["a"]"#,
                r#"c5 <- c2 input 2 {"x":1,"log":["a"]} ["__start__"]"#,
            ];
            let branch: Vec<String> = branch.map(str::to_owned).to_vec();
            assert_eq!(bench.history(ListFilter::default()).await, [branch, before].concat());
        },
    );
}
