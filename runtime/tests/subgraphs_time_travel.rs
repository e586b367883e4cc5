//! Threads with graphs inside that go back in time. What is expected was printed by the same graphs
//! in Python on langgraph 1.2.9 with its InMemorySaver.
#![cfg(not(madsim))]

mod policies_support;
mod thread_support;

use std::sync::Arc;

use durasim_runtime::graph::{Command, Persistence};
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{END, START, StateGraph};
use policies_support::{BOTH, Log, config, paused};
use serde_json::json;
use thread_support::{Bench, inner, input};

const ALL: [Persistence; 3] = [Persistence::PerCall, Persistence::PerThread, Persistence::Never];

fn around(persistence: Persistence, asks: bool, log: &Log) -> Bench {
    let outer = StateGraph::new("outer").key("x").subgraph("sub", inner(persistence, asks, log));
    Bench::new(outer.sequence(&[START, "sub", END]))
}

fn at(checkpoint: Arc<str>) -> RunConfig {
    config(BOTH).checkpoint(checkpoint).subgraphs(true)
}

fn answer(word: &str) -> Input {
    Input::Command(Command::resume(word))
}

#[test]
fn a_graph_inside_goes_back_to_what_it_was_then() {
    paused(async {
        for persistence in ALL {
            let bench = around(persistence, false, &Log::default());
            for x in [7, 8] {
                bench.run(input(json!({ "x": x })), config(BOTH)).await;
            }
            let back = async |number| {
                let lines = bench.run(Input::Resume, at(bench.id(number).await)).await;
                (lines[1].clone(), lines.last().unwrap().clone())
            };
            let of = |inside: &str, end: &str| (inside.to_owned(), end.to_owned());
            // Before the first call there was nothing; before the second, what the first one left.
            let (first, second) = (back(1).await, back(4).await);
            assert_eq!(first, of(r#"sub values {"x":7,"seen":[]}"#, r#"values {"x":0}"#));
            let kept = of(r#"sub values {"x":8,"seen":["a","b"]}"#, r#"values {"x":2}"#);
            let anew = of(r#"sub values {"x":8,"seen":[]}"#, r#"values {"x":0}"#);
            let is_kept = persistence == Persistence::PerThread;
            assert_eq!(second, if is_kept { kept } else { anew }, "{persistence:?}");
            let rows = bench.rows().await;
            let root = ["fork 1 ", "loop 2 ", "fork 4 ", "loop 5 "];
            for (row, start) in rows[6..10].iter().zip(root) {
                assert!(row.starts_with(start), "{row}");
            }
            let starts = |start: &str| rows.iter().filter(|row| row.starts_with(start)).count();
            match persistence {
                Persistence::PerCall => assert_eq!(starts("#sub input -1 "), 4),
                Persistence::PerThread => {
                    assert_eq!((starts("sub input -1 "), starts("sub input 3 ")), (2, 2));
                }
                Persistence::Never => assert_eq!(rows.len(), 10),
            }
        }
    });
}

#[test]
fn a_graph_inside_asks_again_and_takes_a_new_answer() {
    paused(async {
        for persistence in ALL {
            let log = Log::default();
            let bench = around(persistence, true, &log);
            let asked = bench.run(input(json!({ "x": 7 })), at_head()).await;
            bench.run(answer("yes"), config(BOTH)).await;
            log.take();
            assert_eq!(bench.run(Input::Resume, at(bench.id(1).await)).await, asked);
            assert_eq!(log.take(), ["a"], "{persistence:?}");
            let answered = bench.run(answer("again"), at_head()).await;
            let end = &answered[answered.len() - 3..];
            let expected = [
                r#"sub values {"x":0,"seen":["a","again"]}"#,
                r#"updates {"sub":{"x":0}}"#,
                r#"values {"x":0}"#,
            ];
            assert_eq!(end, expected, "{persistence:?}");
            let ran = match persistence {
                Persistence::Never => vec!["a", "b again"],
                _ => vec!["b again"],
            };
            assert_eq!(log.take(), ran, "{persistence:?}");
            let rows = bench.rows().await;
            let ends = ["yes", "again"].map(|word| {
                let text = format!(r#"loop 2 {{"seen":["a","{word}"],"x":0}}"#);
                rows.iter().filter(|row| row.contains(&text)).count()
            });
            // Both branches are there.
            let is_stored = usize::from(persistence != Persistence::Never);
            assert_eq!(ends, [is_stored; 2], "{persistence:?}: {rows:#?}");
        }
    });
}

fn at_head() -> RunConfig {
    config(BOTH).subgraphs(true)
}

/// langgraph#7361, for a question of a graph inside.
#[test]
fn an_answer_at_the_heads_id_reaches_the_graph_inside() {
    paused(async {
        for persistence in ALL {
            let log = Log::default();
            let bench = around(persistence, true, &log);
            bench.run(input(json!({ "x": 7 })), config(BOTH)).await;
            let lines = bench.run(answer("yes"), at(bench.id(1).await)).await;
            assert_eq!(lines.last().unwrap(), r#"values {"x":0}"#);
            let ran = match persistence {
                Persistence::Never => vec!["a", "a", "b yes"],
                _ => vec!["a", "b yes"],
            };
            assert_eq!(log.take(), ran, "{persistence:?}");
        }
    });
}
