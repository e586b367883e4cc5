//! A failed node's handler runs in its place, in the same super-step. What is expected was measured
//! on langgraph 1.2.9 with graphs of these shapes (rows, events and states; AsyncSqliteSaver, and the
//! memory saver for paths).
#![cfg(not(madsim))]

mod policies_support;

use durasim_runtime::checkpoint::id::uuid6_bytes;
use durasim_runtime::checkpoint::task_id;
use durasim_runtime::graph::{Command, NodeFailure, NodeOptions, RetryOn, RetryPolicy, Send};
use durasim_runtime::pregel::Input;
use durasim_runtime::value::Value;
use durasim_runtime::{NodeContext, NodeError, Profile, START, State, StateGraph, StreamMode};
use policies_support::{
    BOTH, Log, UPDATES, Waits, boom, compiled, compiled_with, config, graph, input, ms, paused,
    run, says, state,
};

async fn fails(_: State, _: NodeContext) -> Result<(), NodeError> {
    Err(boom())
}

/// A handler that says `h`.
fn handled() -> NodeOptions {
    NodeOptions::new().on_error(|_, _, _| async { Ok(says("h")) })
}

/// `a` fails and is handled; an edge leads from it to `b`.
fn line(options: NodeOptions) -> StateGraph {
    graph("g")
        .node_with("a", options, fails)
        .node("b", |_, _| async { Ok(says("b")) })
        .edge(START, "a")
        .edge("a", "b")
}

const FAILED: &str = "~__pregel_pull, a: -1 __error__=\"ValueError('boom')\", \
                      1 __error_source_node__=\"a\"";

#[test]
fn a_handler_ends_the_path_of_the_failed_node() {
    paused(async {
        let (graph, saver) = compiled(line(handled()));
        let seen = run(&graph, input(), config(BOTH)).await;
        // The edge from `a` to `b` is not followed.
        assert_eq!(
            seen,
            [
                r#"values {"log":[],"x":0}"#,
                r#"updates {"__error_handler__a":{"log":["h"]}}"#,
                r#"values {"log":["h"],"x":0}"#,
            ]
        );
        let stored = [
            "put input -1",
            "~__pregel_pull, __start__: 0 x=0, 1 branch:to:a=null",
            "put loop 0",
            FAILED,
            "~__pregel_pull, a, node_error_handler, 0000000000: 0 log=[\"h\"]",
            "put loop 1",
        ];
        assert_eq!(saver.log.take(), stored);
        assert_eq!(state(&graph).await, (vec!["h".to_owned()], vec![]));
    });
}

#[test]
fn a_handlers_command_says_where_to_go() {
    paused(async {
        let options = NodeOptions::new()
            .on_error(|_, _, _| async { Ok(Command::new().update(says("h")).goto("b")) });
        let (graph, _) = compiled(line(options));
        run(&graph, input(), config(UPDATES)).await;
        assert_eq!(state(&graph).await.0, ["h", "b"]);
    });
}

#[test]
fn a_handler_is_told_what_failed() {
    paused(async {
        let log = Log::default();
        let told = log.clone();
        let options = NodeOptions::new().on_error(
            move |state: State, failure: NodeFailure, context: NodeContext| {
                let told = told.clone();
                async move {
                    told.add(format!("{} {} {}", context.node(), failure.node, failure.error));
                    told.add(state.get::<i64>("x")?);
                    Ok(())
                }
            },
        );
        let (graph, _) = compiled(line(options));
        run(&graph, input(), config(UPDATES)).await;
        assert_eq!(log.take(), ["__error_handler__a a ValueError: boom", "0"]);
    });
}

/// `a` fails at once, is handled, and `b` runs beside it for 50 ms.
fn pair(log: &Log, handler: NodeOptions) -> StateGraph {
    graph("g")
        .node_with("a", handler, fails)
        .waiting("b", log, ms(50), NodeOptions::new())
        .edge(START, "a")
        .edge(START, "b")
}

#[test]
fn beside_others_a_handled_failure_is_reported_at_the_end() {
    paused(async {
        let log = Log::default();
        let graph = pair(&log, handled()).node("c", |_, _| async { Ok(says("c")) }).edge("b", "c");
        let (faithful, saver) = compiled(graph.clone());
        let seen = run(&faithful, input(), config(BOTH)).await;
        // LangGraph reports it when the run is over and stored; the last values are lost.
        assert_eq!(
            seen,
            [
                r#"values {"log":[],"x":0}"#,
                r#"updates {"__error_handler__a":{"log":["h"]}}"#,
                r#"updates {"b":{"log":["b"]}}"#,
                r#"values {"log":["h","b"],"x":0}"#,
                "! ValueError: boom",
            ]
        );
        assert_eq!(state(&faithful).await, (says_all(&["h", "b", "c"]), vec![]));
        assert_eq!(saver.log.take()[3..5], [FAILED, HANDLERS]);

        let (safe, _) = compiled_with(graph, Profile::Safe.options());
        let seen = run(&safe, input(), config(BOTH)).await;
        assert_eq!(seen.last().unwrap(), r#"values {"log":["h","b","c"],"x":0}"#);
    });
}

const HANDLERS: &str = "~__pregel_pull, a, node_error_handler, 0000000000: 0 log=[\"h\"]";

fn says_all(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn of_several_handled_failures_the_first_task_is_reported() {
    paused(async {
        let slow = |_: State, context: NodeContext| async move {
            context.sleep(ms(50)).await;
            Err::<(), _>(NodeError::failed("ValueError", "first in order"))
        };
        let graph = graph("g")
            .node_with("a", handled(), slow)
            .node_with("b", handled(), fails)
            .edge(START, "a")
            .edge(START, "b");
        let seen = run(&compiled(graph).0, input(), config(UPDATES)).await;
        assert_eq!(seen[0], r#"updates {"__error_handler__b":{"log":["h"]}}"#);
        assert_eq!(seen.last().unwrap(), "! ValueError: first in order");
    });
}

#[test]
fn a_failed_handler_is_tried_again_and_the_node_is_not() {
    paused(async {
        let log = Log::default();
        let (node, handler) = (log.clone(), log.clone());
        let options = NodeOptions::new().on_error(move |_, failure: NodeFailure, _| {
            handler.add(format!("h {}", failure.error));
            let is_first = handler.take().len() == 2;
            async move {
                match is_first {
                    true => Err(NodeError::failed("KeyError", "again")),
                    false => Ok(says(&failure.error.to_string())),
                }
            }
        });
        let graph = graph("g")
            .node_with("a", options, move |_, _| {
                node.add("a");
                async { Err::<(), _>(boom()) }
            })
            .edge(START, "a");
        let (graph, saver) = compiled(graph);
        let seen = run(&graph, input(), config(UPDATES)).await;
        assert_eq!(seen, ["! KeyError: again"]);
        // The thread looks finished: as in LangGraph, the mark counts as something that `a` wrote.
        assert_eq!(state(&graph).await, (vec![], vec![]));

        let seen = run(&graph, Input::Resume, config(UPDATES)).await;
        assert_eq!(seen, [r#"updates {"__error_handler__a":{"log":["ValueError: boom"]}}"#]);
        let stored = saver.log.take();
        let handlers: Vec<_> = stored.iter().filter(|line| line.contains("handler")).collect();
        assert_eq!(handlers.len(), 2);
        assert!(handlers[0].ends_with(": -1 __error__=\"KeyError('again')\""), "{handlers:?}");
        assert_eq!(log.take(), Vec::<String>::new());
    });
}

/// Runs a graph whose handler finishes before its sibling fails, and again; says how often the
/// handler ran.
async fn handler_runs(options: durasim_runtime::Options) -> usize {
    let log = Log::default();
    let (of_handler, of_sibling) = (log.clone(), Log::default());
    let handler = NodeOptions::new().on_error(move |_, _, _| {
        of_handler.add("h");
        async { Ok(says("h")) }
    });
    let graph = graph("g")
        .node_with("a", handler, fails)
        .node("b", move |_, context: NodeContext| {
            of_sibling.add("b");
            let is_first = of_sibling.take().len() == 1;
            of_sibling.add("b");
            async move {
                context.sleep(ms(50)).await;
                if is_first { Err(NodeError::failed("KeyError", "b")) } else { Ok(says("b")) }
            }
        })
        .edge(START, "a")
        .edge(START, "b");
    let (graph, _) = compiled_with(graph, options);
    let seen = run(&graph, input(), config(UPDATES)).await;
    assert_eq!(seen.last().unwrap(), "! KeyError: b");
    assert_eq!(state(&graph).await.1, ["b"]);
    run(&graph, Input::Resume, config(UPDATES)).await;
    assert_eq!(state(&graph).await, (says_all(&["h", "b"]), vec![]));
    log.take().len()
}

#[test]
fn a_finished_handler_runs_again_only_as_langgraph_has_it() {
    // langgraph 1.2.9: the log is a, b, h and after the resume b, h.
    assert_eq!(paused(handler_runs(Profile::Faithful.options())), 2);
    assert_eq!(paused(handler_runs(Profile::Safe.options())), 1);
}

#[test]
fn a_handler_may_ask() {
    paused(async {
        let options = NodeOptions::new().on_error(|_, _, context: NodeContext| async move {
            let answer = context.interrupt("help")?;
            Ok(says(&format!("h{}", answer.as_str().unwrap_or_default())))
        });
        let (graph, saver) = compiled(line(options));
        let seen = run(&graph, input(), config(UPDATES)).await;
        assert!(seen[0].contains("__interrupt__"), "{seen:?}");
        // Nothing of the question shows in the thread, as in LangGraph.
        let asked = graph.get_state("t", None).await.unwrap();
        assert!(asked.next.is_empty() && asked.tasks[0].interrupts.is_empty());

        saver.log.take();
        let answer = Input::Command(Command::resume(Value::from("ok")));
        let seen = run(&graph, answer, config(UPDATES)).await;
        assert_eq!(seen, [r#"updates {"__error_handler__a":{"log":["hok"]}}"#]);
        let path = "~__pregel_pull, a, node_error_handler, 0000000000";
        let rows = format!("{path}: -4 __resume__=[\"ok\"], 1 log=[\"hok\"]");
        assert_eq!(saver.log.take()[..2], [": -4 __resume__=\"ok\"".to_owned(), rows]);
    });
}

#[test]
fn retries_come_first() {
    paused(async {
        let log = Log::default();
        let tried = log.clone();
        let policy = RetryPolicy {
            max_attempts: 2,
            retry_on: RetryOn::Classes(vec!["ValueError".to_owned()]),
            ..RetryPolicy::default()
        };
        let graph = graph("g")
            .node_with("a", handled().retry(policy), move |_, _| {
                tried.add("a");
                async { Err::<(), _>(boom()) }
            })
            .edge(START, "a");
        let (graph, _) = compiled(graph);
        run(&graph, input(), config(UPDATES)).await;
        assert_eq!(log.take(), ["a", "a"]);
        assert_eq!(state(&graph).await.0, ["h"]);
    });
}

#[test]
fn the_handler_of_a_send_has_its_argument_and_path() {
    paused(async {
        let options = NodeOptions::new()
            .on_error(|state: State, _, _| async move { Ok(says(&state.get::<String>("of")?)) });
        let graph = graph("g")
            .node_with("a", options, |state: State, _| async move {
                match state.get::<String>("of")?.as_str() {
                    "bad" => Err(boom()),
                    good => Ok(says(good)),
                }
            })
            .node("r", |_, _| async { Ok(()) })
            .edge(START, "r")
            .branch("r", &["a"], |_: &State| {
                let of = |what| durasim_runtime::value::map([("of", Value::from(what))]);
                Ok(vec![Send::new("a", of("good")), Send::new("a", of("bad"))])
            });
        let (graph, saver) = compiled(graph);
        run(&graph, input(), config(UPDATES)).await;
        let last = saver.log.take();
        let path = "~__pregel_push, 0000000001, 0000000000";
        assert!(last.contains(&format!(
            "{path}: -1 __error__=\"ValueError('boom')\", 1 __error_source_node__=\"a\""
        )));
        let path = format!("{path}, node_error_handler, 0000000000");
        assert!(last.contains(&format!("{path}: 0 log=[\"bad\"]")), "{last:?}");
        assert_eq!(state(&graph).await.0, ["good", "bad"]);
    });
}

#[test]
fn ids_and_namespaces_hang_on_the_failed_task() {
    // langgraph 1.2.9: a handler that runs a graph has its checkpoints in
    // `a:<id of a>|__error_handler__a:<id of the handler>`.
    let checkpoint = uuid6_bytes("1f1ec489-055f-6a44-8000-3b1509d91c25").unwrap();
    let failed = "9fa7760d-af84-7ca3-f6ae-b107424a5d53";
    let around = task_id::task_namespace("", "a", failed);
    let id = task_id::handler(&checkpoint, &around, 1, "__error_handler__a", failed);
    assert_eq!(&*id, "dc5a2d29-7346-1f8f-840b-051bedc4762f");

    paused(async {
        let inner = graph("inner").node("n", |_, _| async { Ok(says("n")) }).edge(START, "n");
        let (inner, _) = compiled(inner);
        let options = NodeOptions::new().on_error(move |_, _, context: NodeContext| {
            let inner = inner.clone();
            async move {
                context.emit("from the handler")?;
                let _ = context.invoke(&inner, &serde_json::json!({ "x": 1 })).await?;
                Ok(())
            }
        });
        let (graph, saver) = compiled(line(options));
        let modes = [StreamMode::Custom];
        let seen = run(&graph, input(), config(&modes).subgraphs(true)).await;
        // What a handler emits comes from the failed task's namespace.
        assert_eq!(seen[0], r#"a custom "from the handler""#);
        let plain = run(&graph, input(), config(&modes)).await;
        assert_eq!(plain[0], r#"custom "from the handler""#);
        let put =
            saver.log.take().into_iter().find(|line| line.contains("input -1") && line.len() > 12);
        assert_eq!(put.unwrap(), "put a|__error_handler__a input -1");
    });
}

#[test]
fn a_handler_inside_a_graph_settles_it_there() {
    paused(async {
        let inner = graph("inner").node_with("ia", handled(), fails).edge(START, "ia");
        let outer = graph("outer").subgraph("sub", inner).edge(START, "sub");
        let (outer, _) = compiled(outer);
        let seen = run(&outer, input(), config(UPDATES)).await;
        assert_eq!(seen, [r#"updates {"sub":{"log":["h"],"x":0}}"#]);
    });
}
