//! What nodes are told besides the state, and which of what comes in and goes out counts. What is
//! expected was printed by the same graphs in Python on langgraph 1.2.9, unless it says otherwise.
#![cfg(not(madsim))]

mod policies_support;
mod thread_support;

use std::collections::BTreeMap;

use durasim_runtime::channels::{Managed, Reducer};
use durasim_runtime::pregel::{Input, RunConfig, StateUpdate};
use durasim_runtime::profile::UndeclaredKeys;
use durasim_runtime::value;
use durasim_runtime::{END, NodeContext, NodeError, Options, START, State, StateGraph, Update};
use policies_support::{BOTH, Log, config, paused};
use serde_json::json;
use thread_support::{Bench, faithful, input, plain};

fn limited(steps: u64) -> RunConfig {
    RunConfig { recursion_limit: steps, ..config(BOTH) }
}

/// `m` and `n` in turns until `x` is 4. They note `<is_last_step> <remaining_steps>`.
fn counting(log: &Log) -> StateGraph {
    let counts = || {
        let log = log.clone();
        move |state: State, context: NodeContext| {
            let log = log.clone();
            async move {
                let is_last: bool = state.get("last")?;
                assert_eq!(context.is_last_step(), is_last);
                log.add(format!("{is_last} {}", state.get::<i64>("left")?));
                Ok::<_, NodeError>(Update::new().set("x", state.get_or("x", 0)? + 1))
            }
        }
    };
    StateGraph::new("counting")
        .key("x")
        .managed_key("last", Managed::IsLastStep)
        .managed_key("left", Managed::RemainingSteps)
        .node("m", counts())
        .node("n", counts())
        .sequence(&[START, "m", "n"])
        .branch("n", &["m", END], |state| {
            Ok(vec![if state.get::<u64>("x")? < 4 { "m" } else { END }])
        })
}

#[test]
fn managed_keys_count_down_to_the_limit_and_are_not_stored() {
    paused(async {
        let log = Log::default();
        let bench = Bench::new(counting(&log));
        let zero = || input(json!({ "x": 0 }));
        let lines = bench.run(zero(), limited(5)).await;
        assert_eq!(lines.last().unwrap(), r#"values {"x":4}"#);
        assert_eq!(log.take(), ["false 4", "false 3", "false 2", "true 1"]);
        let state = bench.graph.get_state("t", None).await.unwrap();
        assert_eq!(plain(&state.values.to_value()), json!({ "x": 4 }));
        let lines = bench.run(zero(), limited(3)).await;
        assert_eq!(lines[lines.len() - 2], r#"values {"x":3}"#);
        assert!(lines.last().unwrap().starts_with("! GraphRecursionError"), "{lines:?}");
        assert_eq!(log.take(), ["false 2", "true 1", "false 0"]);
        // A run that goes on has its limit from where it stands, and no step for the input.
        let lines = bench.run(Input::Resume, limited(3)).await;
        assert_eq!(lines.last().unwrap(), r#"values {"x":4}"#);
        assert_eq!(log.take(), ["false 4"]);
    });
}

#[test]
fn a_graph_inside_counts_its_own_steps() {
    paused(async {
        let log = Log::default();
        let outer = StateGraph::new("outer").key("x").subgraph("s", counting(&log));
        let bench = Bench::new(outer.sequence(&[START, "s", END]));
        bench.run(input(json!({ "x": 2 })), limited(5)).await;
        assert_eq!(log.take(), ["false 4", "false 3"]);
    });
}

#[test]
fn the_runs_context_reaches_every_node_and_no_checkpoint() {
    paused(async {
        let log = Log::default();
        let reads = || {
            let log = log.clone();
            move |_: State, context: NodeContext| {
                let log = log.clone();
                async move {
                    let told: BTreeMap<String, String> = context.context()?;
                    log.add(&told["user"]);
                    Ok::<_, NodeError>(Update::new().set("x", 1))
                }
            }
        };
        let inner = StateGraph::new("inner").key("x").node("k", reads());
        let outer = StateGraph::new("outer")
            .key("x")
            .node("k", reads())
            .subgraph("s", inner.sequence(&[START, "k", END]))
            .sequence(&[START, "k", "s", END]);
        let bench = Bench::new(outer);
        let context = value::from_json(json!({ "user": "ann" }));
        let zero = || input(json!({ "x": 0 }));
        bench.run(zero(), RunConfig { context, ..config(BOTH) }).await;
        assert_eq!(log.take(), ["ann", "ann"]);
        let state = bench.graph.get_state("t", None).await.unwrap();
        assert_eq!(state.metadata.unwrap().extra.len(), 0);
        // Without one, the node that reads it fails, and the error says what it wanted.
        let lines = bench.run(zero(), config(BOTH)).await;
        let error = lines.last().unwrap();
        assert!(error.starts_with("! TypeError: the run's context: "), "{error}");
    });
}

/// Writes a key that is not declared.
fn careless(log: &Log) -> StateGraph {
    let log = log.clone();
    StateGraph::new("careless")
        .key("x")
        .node("u", move |state: State, _| {
            log.add(state.keys().collect::<Vec<_>>().join(" "));
            async { Ok::<_, NodeError>(Update::new().set("x", 2).set("ghost", 3)) }
        })
        .sequence(&[START, "u", END])
}

#[test]
fn undeclared_keys_are_dropped() {
    paused(async {
        let log = Log::default();
        let bench = Bench::new(careless(&log));
        let lines = bench.run(input(json!({ "x": 0, "ghost": 1 })), config(BOTH)).await;
        let expected = [r#"values {"x":0}"#, r#"updates {"u":{"x":2}}"#, r#"values {"x":2}"#];
        assert_eq!(lines, expected);
        assert_eq!(log.take(), ["x"]);
        let update = StateUpdate::new(Update::new().set("ghost", 1)).as_node("u");
        bench.graph.update_state("t", None, update).await.unwrap();
        let state = bench.graph.get_state("t", None).await.unwrap();
        assert_eq!(thread_support::looks(&state), r#"update 2 {"x":2} []"#);
    });
}

/// Not in LangGraph, which has no such option.
#[test]
fn undeclared_keys_are_rejected_by_name_where_that_is_asked_for() {
    paused(async {
        let options = Options { undeclared_keys: UndeclaredKeys::Rejected, ..faithful() };
        let log = Log::default();
        let bench = Bench::with(careless(&log), options);
        let lines = bench.run(input(json!({ "x": 0, "ghost": 1 })), config(BOTH)).await;
        let refused = r#"! InvalidUpdateError: the graph declares no state key "ghost""#;
        assert_eq!(lines, [refused]);
        assert_eq!(log.take(), [""; 0]);
        let lines = bench.run(input(json!({ "x": 0 })), config(BOTH)).await;
        assert_eq!(lines, [r#"values {"x":0}"#, refused]);
        let stored = bench.ids().await.len();
        let update = StateUpdate::new(Update::new().set("ghost", 1)).as_node("u");
        let error = bench.graph.update_state("t", None, update).await.unwrap_err();
        assert!(error.to_string().contains("\"ghost\""), "{error}");
        assert_eq!(bench.ids().await.len(), stored);
    });
}

#[test]
fn the_root_takes_its_input_keys_and_gives_its_output_keys() {
    paused(async {
        let log = Log::default();
        let noted = log.clone();
        let graph = StateGraph::new("root")
            .key("x")
            .key("y")
            .key("z")
            .input_keys(&["x"])
            .output_keys(&["y"])
            .node("w", move |state: State, _| {
                noted.add(state.keys().collect::<Vec<_>>().join(" "));
                async { Ok::<_, NodeError>(Update::new().set("y", 2).set("z", 3)) }
            })
            .sequence(&[START, "w", END]);
        let bench = Bench::new(graph);
        let all = || input(json!({ "x": 1, "y": 9, "z": 9 }));
        // A stream shows the whole state; only what `invoke` gives back is the output.
        let lines = bench.run(all(), config(BOTH)).await;
        let expected = [
            r#"values {"x":1}"#,
            r#"updates {"w":{"y":2,"z":3}}"#,
            r#"values {"x":1,"y":2,"z":3}"#,
        ];
        assert_eq!(lines, expected);
        assert_eq!(log.take(), ["x"]);
        let given = bench.graph.invoke(all(), RunConfig::new("t")).await.unwrap();
        assert_eq!(plain(&given), json!({ "y": 2 }));
    });
}

/// `first` says `p`, then these run beside each other.
fn overwriting(nodes: &[&str]) -> StateGraph {
    let p =
        |_: State, _: NodeContext| async { Ok::<_, NodeError>(Update::new().set("log", ["p"])) };
    let sets = |word: &'static str| {
        move |_: State, _: NodeContext| async move {
            Ok::<_, NodeError>(Update::new().overwrite("log", [word]))
        }
    };
    let graph = StateGraph::new("overwriting").reduced_key("log", Reducer::append());
    let graph = graph.node("first", p).edge(START, "first");
    nodes.iter().fold(graph, |graph, &name| {
        let graph = match name {
            "p" => graph.node(name, p),
            "o" => graph.node(name, sets("new")),
            _ => graph.node(name, sets("other")),
        };
        graph.edge("first", name)
    })
}

#[test]
fn an_overwrite_goes_past_the_reducer() {
    paused(async {
        let given = || input(json!({ "log": ["in"] }));
        let bench = Bench::new(overwriting(&["o"]));
        let lines = bench.run(given(), config(BOTH)).await;
        let expected = [
            r#"values {"log":["in"]}"#,
            r#"updates {"first":{"log":["p"]}}"#,
            r#"values {"log":["in","p"]}"#,
            r#"updates {"o":{"log":{"value":["new"]}}}"#,
            r#"values {"log":["new"]}"#,
        ];
        assert_eq!(lines, expected);
        // What others write in the same step does not count, before it or after.
        for nodes in [["o", "p"], ["p", "o"]] {
            let bench = Bench::new(overwriting(&nodes));
            let lines = bench.run(given(), config(BOTH)).await;
            assert_eq!(lines.last().unwrap(), r#"values {"log":["new"]}"#);
        }
    });
}

#[test]
fn two_overwrites_in_one_step_are_an_error_that_names_the_channel() {
    paused(async {
        let bench = Bench::new(overwriting(&["o", "o2"]));
        let lines = bench.run(input(json!({ "log": ["in"] })), config(BOTH)).await;
        // langgraph 1.2.9: `InvalidUpdateError: Can receive only one Overwrite value per
        // super-step.`, after both updates were shown.
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[4], r#"updates {"o2":{"log":{"value":["other"]}}}"#);
        assert!(lines[5].starts_with("! InvalidUpdateError: "), "{lines:?}");
        assert!(lines[5].contains("\"log\"") && lines[5].contains("o, o2"), "{lines:?}");
        // Both writes are stored, and there is no state with both applied: there as here, looking at
        // the thread fails in the same way.
        let error = bench.graph.get_state("t", None).await.unwrap_err();
        assert_eq!(error.class(), "InvalidUpdateError");
    });
}

#[test]
fn an_overwrite_comes_from_outside_too() {
    paused(async {
        let bench = Bench::new(overwriting(&["p"]));
        let over = Update::new().overwrite("log", ["in"]);
        let lines = bench.run(Input::of(over).unwrap(), config(BOTH)).await;
        assert_eq!(lines[0], r#"values {"log":["in"]}"#);
        assert_eq!(lines.last().unwrap(), r#"values {"log":["in","p","p"]}"#);
        let update = StateUpdate::new(Update::new().overwrite("log", ["set"])).as_node("p");
        bench.graph.update_state("t", None, update).await.unwrap();
        let state = bench.graph.get_state("t", None).await.unwrap();
        assert_eq!(plain(&state.values.to_value()), json!({ "log": ["set"] }));
    });
}
