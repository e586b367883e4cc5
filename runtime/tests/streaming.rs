//! What a stream shows in each mode, and in which order. What is expected was printed by the same
//! graphs in Python on langgraph 1.2.9, which had a chat model of fake words for `messages`.
#![cfg(not(madsim))]

mod policies_support;
mod thread_support;

use durasim_runtime::channels::Reducer;
use durasim_runtime::graph::Command;
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{
    Chunk, Doors, END, NodeContext, NodeError, START, State, StateGraph, StreamMode, Update,
};
use futures::StreamExt;
use policies_support::{boom, config, ms, paused};
use serde_json::{Value as Json, json};
use thread_support::{Bench, faithful, input, names, plain};

/// `a` emits, then `b` and `c` run beside each other, and `c` emits.
fn fan(b: impl FnOnce(StateGraph) -> StateGraph) -> StateGraph {
    let graph = StateGraph::new("fan").key("x").reduced_key("log", Reducer::append()).node(
        "a",
        |_: State, context: NodeContext| async move {
            context.emit("hi")?;
            context.sleep(ms(10)).await;
            for word in ["one", " ", "two"] {
                context.emit_message(json!({ "content": word }))?;
            }
            Ok::<_, NodeError>(Update::new().set("log", ["a"]))
        },
    );
    b(graph)
        .node("c", |_: State, context: NodeContext| async move {
            context.sleep(ms(20)).await;
            context.emit("bye")?;
            Ok::<_, NodeError>(Update::new().set("log", ["c"]))
        })
        .edge(START, "a")
        .edge("a", "b")
        .edge("a", "c")
}

fn plain_fan() -> StateGraph {
    fan(|graph| {
        graph.node("b", |_: State, context: NodeContext| async move {
            context.sleep(ms(10)).await;
            Ok::<_, NodeError>(Update::new().set("log", ["b"]).set("x", 1))
        })
    })
}

/// `b` is a graph of one node, which emits.
fn fan_around_a_graph() -> StateGraph {
    let inner =
        StateGraph::new("inner").key("x").node("i", |_: State, context: NodeContext| async move {
            context.emit("in")?;
            context.emit_message(json!({ "content": "one" }))?;
            Ok::<_, NodeError>(Update::new().set("x", 5))
        });
    fan(|graph| graph.subgraph("b", inner.sequence(&[START, "i", END])))
}

async fn chunks(bench: &Bench, given: Input, config: RunConfig) -> (Vec<Chunk>, Option<String>) {
    let mut stream = bench.graph.stream(given, config);
    let mut found = vec![];
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => found.push(chunk),
            Err(error) => return (found, Some(thread_support::told(&error))),
        }
    }
    (found, None)
}

/// Chunks in short, without their ids.
fn short(chunk: &Chunk) -> String {
    let place = names(&chunk.namespace.join("|"));
    format!("{place}{}", told(chunk.mode, &plain(&chunk.data)))
}

fn told(mode: StreamMode, data: &Json) -> String {
    match mode {
        StreamMode::Debug => {
            let kind = data["type"].as_str().unwrap();
            let of = if kind == "checkpoint" { StreamMode::Checkpoints } else { StreamMode::Tasks };
            format!("debug {} {kind}: {}", data["step"], told(of, &data["payload"]))
        }
        StreamMode::Tasks if data.get("triggers").is_some() => {
            let (name, input) = (data["name"].as_str().unwrap(), &data["input"]);
            format!("tasks {name} {input} {}", data["triggers"])
        }
        StreamMode::Tasks => {
            let (name, result) = (data["name"].as_str().unwrap(), &data["result"]);
            format!("tasks {name} -> {result} {} {}", data["error"], data["interrupts"])
        }
        StreamMode::Checkpoints => {
            let (about, values) = (&data["metadata"], &data["values"]);
            let source = about["source"].as_str().unwrap();
            format!("checkpoints {source} {} {values} {}", about["step"], data["next"])
        }
        StreamMode::Messages => format!("messages {}", data[0]["content"]),
        mode => format!("{mode} {data}"),
    }
}

fn all_short(chunks: &[Chunk]) -> Vec<String> {
    chunks.iter().map(short).collect()
}

fn begin() -> Input {
    input(json!({ "x": 0 }))
}

#[test]
fn all_modes_at_once_come_in_langgraphs_order() {
    const EXPECTED: &[&str] = &[
        r#"checkpoints input -1 {"log":[]} ["__start__"]"#,
        r#"debug -1 checkpoint: checkpoints input -1 {"log":[]} ["__start__"]"#,
        r#"values {"x":0,"log":[]}"#,
        r#"checkpoints loop 0 {"x":0,"log":[]} ["a"]"#,
        r#"debug 0 checkpoint: checkpoints loop 0 {"x":0,"log":[]} ["a"]"#,
        r#"tasks a {"x":0,"log":[]} ["branch:to:a"]"#,
        r#"debug 1 task: tasks a {"x":0,"log":[]} ["branch:to:a"]"#,
        r#"custom "hi""#,
        r#"messages "one""#,
        r#"messages " ""#,
        r#"messages "two""#,
        r#"updates {"a":{"log":["a"]}}"#,
        r#"tasks a -> {"log":["a"]} null []"#,
        r#"debug 1 task_result: tasks a -> {"log":["a"]} null []"#,
        r#"values {"x":0,"log":["a"]}"#,
        r#"checkpoints loop 1 {"x":0,"log":["a"]} ["b","c"]"#,
        r#"debug 1 checkpoint: checkpoints loop 1 {"x":0,"log":["a"]} ["b","c"]"#,
        r#"tasks b {"x":0,"log":["a"]} ["branch:to:b"]"#,
        r#"debug 2 task: tasks b {"x":0,"log":["a"]} ["branch:to:b"]"#,
        r#"tasks c {"x":0,"log":["a"]} ["branch:to:c"]"#,
        r#"debug 2 task: tasks c {"x":0,"log":["a"]} ["branch:to:c"]"#,
        r#"updates {"b":{"log":["b"],"x":1}}"#,
        r#"tasks b -> {"log":["b"],"x":1} null []"#,
        r#"debug 2 task_result: tasks b -> {"log":["b"],"x":1} null []"#,
        r#"custom "bye""#,
        r#"updates {"c":{"log":["c"]}}"#,
        r#"tasks c -> {"log":["c"]} null []"#,
        r#"debug 2 task_result: tasks c -> {"log":["c"]} null []"#,
        r#"values {"x":1,"log":["a","b","c"]}"#,
        r#"checkpoints loop 2 {"x":1,"log":["a","b","c"]} []"#,
        r#"debug 2 checkpoint: checkpoints loop 2 {"x":1,"log":["a","b","c"]} []"#,
    ];
    paused(async {
        let bench = Bench::new(plain_fan());
        let (found, error) = chunks(&bench, begin(), config(&StreamMode::ALL)).await;
        assert_eq!(error, None);
        assert_eq!(all_short(&found), EXPECTED);
        // The order in which modes are asked for does not matter.
        let mut backwards = StreamMode::ALL;
        backwards.reverse();
        let bench = Bench::new(plain_fan());
        let (found, _) = chunks(&bench, begin(), config(&backwards)).await;
        assert_eq!(all_short(&found), EXPECTED);
    });
}

#[test]
fn each_mode_alone_shows_what_it_shows_among_all() {
    paused(async {
        let (all, _) = chunks(&Bench::new(plain_fan()), begin(), config(&StreamMode::ALL)).await;
        for mode in StreamMode::ALL {
            let (alone, _) = chunks(&Bench::new(plain_fan()), begin(), config(&[mode])).await;
            assert!(!alone.is_empty());
            let among: Vec<String> =
                all.iter().filter(|chunk| chunk.mode == mode).map(short).collect();
            assert_eq!(all_short(&alone), among, "{mode}");
        }
        let (none, error) = chunks(&Bench::new(plain_fan()), begin(), config(&[])).await;
        assert_eq!((none.len(), error), (0, None));
    });
}

fn keys(map: &Json) -> Vec<&str> {
    map.as_object().unwrap().keys().map(|key| &**key).collect()
}

#[test]
fn debug_wraps_what_tasks_and_checkpoints_show() {
    use StreamMode::{Checkpoints, Debug, Tasks};
    paused(async {
        let modes = [Checkpoints, Debug, Tasks];
        let (found, _) = chunks(&Bench::new(plain_fan()), begin(), config(&modes)).await;
        let (wrapped, bare): (Vec<Chunk>, Vec<Chunk>) =
            found.into_iter().partition(|chunk| chunk.mode == Debug);
        let payloads: Vec<Json> = wrapped.iter().map(|chunk| plain(&chunk.data)).collect();
        for wrapped in &payloads {
            assert_eq!(keys(wrapped), ["step", "timestamp", "type", "payload"]);
            let timestamp = wrapped["timestamp"].as_str().unwrap();
            assert!(timestamp.ends_with("+00:00") && timestamp.contains('T'), "{timestamp}");
            let payload = keys(&wrapped["payload"]);
            let expected: &[&str] = match wrapped["type"].as_str().unwrap() {
                "task" => &["id", "name", "input", "triggers"],
                "task_result" => &["id", "name", "error", "result", "interrupts"],
                "checkpoint" => &["config", "parent_config", "values", "metadata", "next", "tasks"],
                other => panic!("{other}"),
            };
            assert_eq!(payload, expected);
        }
        let payloads: Vec<&Json> = payloads.iter().map(|wrapped| &wrapped["payload"]).collect();
        let bare: Vec<Json> = bare.iter().map(|chunk| plain(&chunk.data)).collect();
        assert_eq!(payloads, bare.iter().collect::<Vec<_>>());
    });
}

#[test]
fn a_streamed_checkpoint_names_itself_its_parent_and_its_tasks() {
    paused(async {
        let bench = Bench::new(fan_around_a_graph());
        let (found, _) = chunks(&bench, begin(), config(&[StreamMode::Checkpoints])).await;
        let ids = bench.ids().await;
        let mut parent: Option<&str> = None;
        for (chunk, id) in found.iter().zip(&ids) {
            let shown = plain(&chunk.data);
            let config = |id: &str| {
                json!({ "configurable": {
                    "thread_id": "t", "checkpoint_ns": "", "checkpoint_id": id
                } })
            };
            assert_eq!(shown["config"], config(id));
            assert_eq!(shown["parent_config"], parent.map_or(Json::Null, config));
            assert_eq!(keys(&shown["metadata"]), ["source", "step", "parents"]);
            parent = Some(id);
            for task in shown["tasks"].as_array().unwrap() {
                assert_eq!(keys(task), ["id", "name", "interrupts", "state"]);
                let place = format!("b:{}", task["id"].as_str().unwrap());
                let inside = json!({ "thread_id": "t", "checkpoint_ns": place });
                let expected = match task["name"] == "b" {
                    true => json!({ "configurable": inside }),
                    false => Json::Null,
                };
                assert_eq!(task["state"], expected);
            }
        }
        assert_eq!(found.len(), 4);
    });
}

#[test]
fn without_a_saver_there_are_no_checkpoints_to_show() {
    paused(async {
        let graph = plain_fan().compile(None, &Doors::production(), faithful()).unwrap();
        let modes = [StreamMode::Tasks, StreamMode::Checkpoints];
        let found: Vec<_> = graph.stream(begin(), config(&modes)).collect().await;
        let modes: Vec<StreamMode> = found.into_iter().map(|chunk| chunk.unwrap().mode).collect();
        assert_eq!(modes, [StreamMode::Tasks; 6]);
    });
}

#[test]
fn a_message_is_a_piece_and_what_is_known_of_its_task() {
    paused(async {
        let bench = Bench::new(fan_around_a_graph());
        let config = config(&[StreamMode::Messages, StreamMode::Tasks]).subgraphs(true);
        let (found, _) = chunks(&bench, begin(), config).await;
        let started: Vec<(Json, String)> = found
            .iter()
            .map(|chunk| (plain(&chunk.data), chunk.namespace.join("|")))
            .filter(|(data, _)| data.get("triggers").is_some())
            .collect();
        let task_namespace = |node: &str| {
            let (data, around) = started.iter().find(|(data, _)| data["name"] == node).unwrap();
            let own = format!("{node}:{}", data["id"].as_str().unwrap());
            if around.is_empty() { own } else { format!("{around}|{own}") }
        };
        let pieces: Vec<Json> = found
            .iter()
            .filter(|chunk| chunk.mode == StreamMode::Messages)
            .map(|chunk| plain(&chunk.data))
            .collect();
        let of = |content: &str, node: &str| {
            json!([{ "content": content }, {
                "langgraph_step": 1,
                "langgraph_node": node,
                "langgraph_triggers": [format!("branch:to:{node}")],
                "langgraph_checkpoint_ns": task_namespace(node),
            }])
        };
        assert_eq!(pieces, [of("one", "a"), of(" ", "a"), of("two", "a"), of("one", "i")]);
    });
}

#[test]
fn graphs_inside_are_shown_with_their_namespace_or_not_at_all() {
    const MODES: [StreamMode; 5] = [
        StreamMode::Values,
        StreamMode::Updates,
        StreamMode::Custom,
        StreamMode::Messages,
        StreamMode::Tasks,
    ];
    const EXPECTED: &[&str] = &[
        r#"values {"x":0,"log":[]}"#,
        r#"tasks a {"x":0,"log":[]} ["branch:to:a"]"#,
        r#"custom "hi""#,
        r#"messages "one""#,
        r#"messages " ""#,
        r#"messages "two""#,
        r#"updates {"a":{"log":["a"]}}"#,
        r#"tasks a -> {"log":["a"]} null []"#,
        r#"values {"x":0,"log":["a"]}"#,
        r#"tasks b {"x":0,"log":["a"]} ["branch:to:b"]"#,
        r#"tasks c {"x":0,"log":["a"]} ["branch:to:c"]"#,
        r#"b values {"x":0}"#,
        r#"b tasks i {"x":0} ["branch:to:i"]"#,
        r#"b custom "in""#,
        r#"b messages "one""#,
        r#"b updates {"i":{"x":5}}"#,
        r#"b tasks i -> {"x":5} null []"#,
        r#"b values {"x":5}"#,
        r#"updates {"b":{"x":5}}"#,
        r#"tasks b -> {"x":5} null []"#,
        r#"custom "bye""#,
        r#"updates {"c":{"log":["c"]}}"#,
        r#"tasks c -> {"log":["c"]} null []"#,
        r#"values {"x":5,"log":["a","c"]}"#,
    ];
    paused(async {
        let bench = Bench::new(fan_around_a_graph());
        let (found, _) = chunks(&bench, begin(), config(&MODES).subgraphs(true)).await;
        assert_eq!(all_short(&found), EXPECTED);
        for chunk in found.iter().filter(|chunk| !chunk.namespace.is_empty()) {
            assert_eq!(chunk.namespace.len(), 1);
            assert_eq!(chunk.namespace[0].len(), "b:".len() + 36);
        }
        let bench = Bench::new(fan_around_a_graph());
        let (found, _) = chunks(&bench, begin(), config(&MODES)).await;
        let outside: Vec<&&str> = EXPECTED.iter().filter(|line| !line.starts_with("b ")).collect();
        assert_eq!(all_short(&found).iter().collect::<Vec<_>>(), outside);
        assert!(found.iter().all(|chunk| chunk.namespace.is_empty()));
    });
}

#[test]
fn questions_and_failures_show_in_every_mode() {
    use StreamMode::{Checkpoints, Debug, Tasks, Updates};
    let graph = StateGraph::new("asks")
        .key("x")
        .node("q", |_: State, context: NodeContext| async move {
            let answer = context.interrupt("q?")?;
            Ok::<_, NodeError>(Update::new().set_value("x", answer))
        })
        .node("z", |_: State, _| async { Err::<Update, _>(boom()) })
        .sequence(&[START, "q", "z", END]);
    paused(async move {
        let bench = Bench::new(graph);
        let modes = [Updates, Tasks, Checkpoints, Debug];
        let (found, error) = chunks(&bench, begin(), config(&modes)).await;
        let question = plain(&found.iter().find(|chunk| chunk.mode == Updates).unwrap().data);
        let waiting = bench.graph.get_state("t", None).await.unwrap().tasks[0].interrupts.clone();
        assert_eq!(question, json!({ "__interrupt__": [{ "value": "q?" }] }));
        let asks = format!(r#"tasks q -> {{}} null [{{"value":"q?","id":"{}"}}]"#, waiting[0].1);
        let expected = [
            r#"checkpoints input -1 {} ["__start__"]"#,
            r#"debug -1 checkpoint: checkpoints input -1 {} ["__start__"]"#,
            r#"checkpoints loop 0 {"x":0} ["q"]"#,
            r#"debug 0 checkpoint: checkpoints loop 0 {"x":0} ["q"]"#,
            r#"tasks q {"x":0} ["branch:to:q"]"#,
            r#"debug 1 task: tasks q {"x":0} ["branch:to:q"]"#,
            r#"updates {"__interrupt__":[{"value":"q?"}]}"#,
            &asks,
            &format!("debug 1 task_result: {asks}"),
        ];
        assert_eq!((all_short(&found), error), (expected.map(str::to_owned).to_vec(), None));
        let answer = Input::Command(Command::resume(3));
        let (found, error) = chunks(&bench, answer, config(&modes)).await;
        let expected = [
            r#"checkpoints loop 0 {"x":0} ["q"]"#,
            r#"debug 0 checkpoint: checkpoints loop 0 {"x":0} ["q"]"#,
            r#"tasks q {"x":0} ["branch:to:q"]"#,
            r#"debug 1 task: tasks q {"x":0} ["branch:to:q"]"#,
            r#"updates {"q":{"x":3}}"#,
            r#"tasks q -> {"x":3} null []"#,
            r#"debug 1 task_result: tasks q -> {"x":3} null []"#,
            r#"checkpoints loop 1 {"x":3} ["z"]"#,
            r#"debug 1 checkpoint: checkpoints loop 1 {"x":3} ["z"]"#,
            r#"tasks z {"x":3} ["branch:to:z"]"#,
            r#"debug 2 task: tasks z {"x":3} ["branch:to:z"]"#,
        ];
        assert_eq!(all_short(&found), expected);
        assert_eq!(error.unwrap(), "ValueError: boom");
    });
}
