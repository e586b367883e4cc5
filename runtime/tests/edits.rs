//! Looking through a thread's history, and writing to a thread from outside. What is expected was
//! printed by the same graphs in Python on langgraph 1.2.9.
#![cfg(not(madsim))]

mod policies_support;
mod thread_support;

use durasim_runtime::channels::Reducer;
use durasim_runtime::checkpoint::saver::ListFilter;
use durasim_runtime::pregel::{Input, StateUpdate};
use durasim_runtime::{END, NodeContext, NodeError, START, State, StateGraph, Update};
use policies_support::{BOTH, config, paused};
use serde_json::{Value as Json, json};
use thread_support::{Bench, input};

/// `a`, `b`, `c`: each says its name.
fn line() -> StateGraph {
    let says = |name: &'static str| {
        move |_: State, _: NodeContext| async move {
            Ok::<_, NodeError>(Update::new().set("log", [name]))
        }
    };
    StateGraph::new("line")
        .key("x")
        .reduced_key("log", Reducer::append())
        .node("a", says("a"))
        .node("b", says("b"))
        .node("c", says("c"))
        .sequence(&[START, "a", "b", "c", END])
}

/// A thread of two turns; the second begins at the checkpoint after `a`.
async fn branched() -> Bench {
    let bench = Bench::new(line());
    bench.run(input(json!({ "x": 1 })), config(BOTH)).await;
    let after_a = bench.id(2).await;
    bench.run(input(json!({ "x": 2 })), config(BOTH).checkpoint(after_a)).await;
    bench
}

fn with(metadata: Json) -> ListFilter {
    let metadata = metadata.as_object().expect("a map").clone();
    ListFilter { metadata, ..ListFilter::default() }
}

#[test]
fn a_history_is_filtered_by_source_step_place_and_length() {
    paused(async {
        let bench = branched().await;
        let all = [
            r#"c9 <- c8 loop 6 {"x":2,"log":["a","a","b","c"]} []"#,
            r#"c8 <- c7 loop 5 {"x":2,"log":["a","a","b"]} ["c"]"#,
            r#"c7 <- c6 loop 4 {"x":2,"log":["a","a"]} ["b"]"#,
            r#"c6 <- c5 loop 3 {"x":2,"log":["a"]} ["a"]"#,
            r#"c5 <- c2 input 2 {"x":1,"log":["a"]} ["__start__"]"#,
            r#"c4 <- c3 loop 3 {"x":1,"log":["a","b","c"]} []"#,
            r#"c3 <- c2 loop 2 {"x":1,"log":["a","b"]} ["c"]"#,
            r#"c2 <- c1 loop 1 {"x":1,"log":["a"]} ["b"]"#,
            r#"c1 <- c0 loop 0 {"x":1,"log":[]} ["a"]"#,
            r#"c0 <- - input -1 {"log":[]} ["__start__"]"#,
        ];
        assert_eq!(bench.history(ListFilter::default()).await, all);
        let inputs = bench.history(with(json!({ "source": "input" }))).await;
        assert_eq!(inputs, [all[4], all[9]]);
        let third = bench.history(with(json!({ "step": 3 }))).await;
        assert_eq!(third, [all[3], all[5]]);
        let first = bench.history(with(json!({ "source": "loop", "step": 1 }))).await;
        assert_eq!(first, [all[7]]);
        assert_eq!(bench.history(with(json!({ "source": "fork" }))).await, [""; 0]);
        let newest = ListFilter { limit: Some(2), ..ListFilter::default() };
        assert_eq!(bench.history(newest).await, all[..2]);
        let c6 = bench.id(6).await;
        let older = ListFilter { before: Some(c6.clone()), ..ListFilter::default() };
        assert_eq!(bench.history(older).await, all[4..]);
        let one =
            ListFilter { before: Some(c6), limit: Some(1), ..with(json!({ "source": "loop" })) };
        assert_eq!(bench.history(one).await, [all[5]]);
    });
}

#[test]
fn an_unknown_thread_is_empty() {
    paused(async {
        let bench = Bench::new(line());
        let state = bench.graph.get_state("t", None).await.unwrap();
        assert_eq!((state.checkpoint, state.next.len(), state.tasks.len()), (None, 0, 0));
        assert_eq!(bench.history(ListFilter::default()).await, [""; 0]);
    });
}

fn write(key: &str, value: Json) -> StateUpdate {
    StateUpdate::new(Update::new().set(key, value))
}

#[test]
fn two_super_steps_of_updates_make_a_thread() {
    paused(async {
        let bench = Bench::new(line());
        let steps = vec![
            vec![write("x", json!(1)).as_node("a")],
            vec![write("log", json!(["u"])).as_node("b")],
        ];
        let made = bench.graph.bulk_update_state("t", None, steps).await.unwrap();
        assert_eq!(made, bench.id(1).await);
        let updates = [
            r#"c1 <- c0 update 1 {"x":1,"log":["u"]} ["c"]"#,
            r#"c0 <- - update 0 {"x":1,"log":[]} ["b"]"#,
        ];
        assert_eq!(bench.history(ListFilter::default()).await, updates);
        let lines = bench.run(Input::Resume, config(BOTH)).await;
        assert_eq!(
            lines,
            [
                r#"values {"x":1,"log":["u"]}"#,
                r#"updates {"c":{"log":["c"]}}"#,
                r#"values {"x":1,"log":["u","c"]}"#,
            ]
        );
        let history = bench.history(ListFilter::default()).await;
        assert_eq!(history[0], r#"c2 <- c1 loop 2 {"x":1,"log":["u","c"]} []"#);
        assert_eq!(history[1..], updates);
    });
}

#[test]
fn several_nodes_write_in_one_super_step() {
    paused(async {
        let bench = Bench::new(line());
        let steps = vec![
            vec![write("log", json!(["1"])).as_node("a"), write("log", json!(["2"])).as_node("b")],
            vec![write("x", json!(5)).as_node("c")],
        ];
        bench.graph.bulk_update_state("t", None, steps).await.unwrap();
        assert_eq!(
            bench.history(ListFilter::default()).await,
            [
                r#"c1 <- c0 update 1 {"x":5,"log":["1","2"]} []"#,
                r#"c0 <- - update 0 {"log":["1","2"]} ["b", "c"]"#,
            ]
        );
    });
}

#[test]
fn an_update_of_a_fresh_thread_is_its_input_unless_it_is_a_nodes() {
    paused(async {
        let bench = Bench::new(line());
        let update = StateUpdate::new(Update::new().set("x", 1).set("log", ["u"]));
        bench.graph.update_state("t", None, update).await.unwrap();
        let history = bench.history(ListFilter::default()).await;
        assert_eq!(history, [r#"c0 <- - update 0 {"x":1,"log":["u"]} ["a"]"#]);
        let lines = bench.run(Input::Resume, config(BOTH)).await;
        assert_eq!(lines[0], r#"values {"x":1,"log":["u"]}"#);
        assert_eq!(lines.last().unwrap(), r#"values {"x":1,"log":["u","a","b","c"]}"#);
        let history = bench.history(ListFilter { limit: Some(3), ..Default::default() }).await;
        assert_eq!(
            history,
            [
                r#"c3 <- c2 loop 3 {"x":1,"log":["u","a","b","c"]} []"#,
                r#"c2 <- c1 loop 2 {"x":1,"log":["u","a","b"]} ["c"]"#,
                r#"c1 <- c0 loop 1 {"x":1,"log":["u","a"]} ["b"]"#,
            ]
        );
        let bench = Bench::new(line());
        bench.graph.update_state("t", None, write("x", json!(1)).as_node("a")).await.unwrap();
        let history = bench.history(ListFilter::default()).await;
        assert_eq!(history, [r#"c0 <- - update 0 {"x":1,"log":[]} ["b"]"#]);
        let lines = bench.run(Input::Resume, config(BOTH)).await;
        assert_eq!(lines.last().unwrap(), r#"values {"x":1,"log":["b","c"]}"#);
    });
}
