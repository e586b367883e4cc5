//! What the body of a run request may say, asked of the router itself, without a network. What runs
//! and shows then was printed by the same graphs in Python on langgraph 1.2.9.
#![cfg(not(madsim))]

mod policies_support;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use durasim_runtime::channels::Reducer;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::http::{HandlerConfig, HandlerShape, router};
use durasim_runtime::{
    Doors, END, NodeContext, NodeError, Profile, START, State, StateGraph, Update,
};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use policies_support::paused;
use serde_json::{Value as Json, json};

/// A server in front of a graph. All requests are of the thread `t`.
struct Server(TowerToHyperService<axum::Router>);

impl Server {
    fn new(graph: StateGraph) -> Server {
        let doors = Doors::production();
        let saver = Arc::new(MemorySaver::new(&doors));
        let options = Profile::Faithful.options();
        let graph = graph.compile(Some(saver), &doors, options).expect("a graph");
        let router = router(HandlerShape::Inline, graph, HandlerConfig::default());
        Server(TowerToHyperService::new(router))
    }

    async fn ask(&self, request: Request<Body>) -> (StatusCode, String) {
        let response = self.0.call(request).await.expect("a response");
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
        (status, String::from_utf8(body.to_vec()).expect("text"))
    }

    async fn post(&self, body: &Json) -> (StatusCode, String) {
        let request = Request::post("/threads/t/runs/stream").body(Body::from(body.to_string()));
        self.ask(request.expect("a request")).await
    }

    async fn get(&self, what: &str) -> Json {
        let request = Request::get(format!("/threads/t/{what}")).body(Body::empty());
        let (status, body) = self.ask(request.expect("a request")).await;
        assert_eq!(status, StatusCode::OK);
        serde_json::from_str(&body).expect("JSON")
    }

    /// The events of a run as `<name> <data>`; the last one, `end`, is left out.
    async fn run(&self, body: Json) -> Vec<String> {
        let (status, text) = self.post(&body).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        let event = |text: &str| {
            let (name, data) = text.split_once('\n').expect("two lines");
            let name = name.strip_prefix("event: ").expect("a name");
            format!("{name} {}", data.strip_prefix("data: ").expect("data"))
        };
        let mut events: Vec<String> = text.split_terminator("\n\n").map(event).collect();
        if events.last().is_some_and(|last| last == "end {}") {
            events.pop();
        }
        events
    }

    /// What a refusal says.
    async fn refused(&self, body: Json) -> String {
        let (status, text) = self.post(&body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{text}");
        let problem: Json = serde_json::from_str(&text).expect("JSON");
        problem["detail"].as_str().expect("words").to_owned()
    }

    async fn checkpoints(&self) -> usize {
        self.get("history").await.as_array().expect("a list").len()
    }
}

fn says(name: &'static str) -> Update {
    Update::new().set("log", [name])
}

/// `a`, `b`, `c`: each says its name.
fn line() -> StateGraph {
    StateGraph::new("line")
        .key("x")
        .reduced_key("log", Reducer::append())
        .node("a", |_: State, _| async { Ok::<_, NodeError>(says("a")) })
        .node("b", |_: State, _| async { Ok::<_, NodeError>(says("b")) })
        .node("c", |_: State, _| async { Ok::<_, NodeError>(says("c")) })
        .sequence(&[START, "a", "b", "c", END])
}

/// A thread that has run to its end.
async fn finished() -> Server {
    let server = Server::new(line());
    let events = server.run(json!({ "input": { "x": 1 } })).await;
    assert_eq!(events, RAN);
    server
}

const RAN: [&str; 3] = [
    r#"updates {"a":{"log":["a"]}}"#,
    r#"updates {"b":{"log":["b"]}}"#,
    r#"updates {"c":{"log":["c"]}}"#,
];
const PAUSED: &str = r#"updates {"__interrupt__":[]}"#;

#[test]
fn a_command_goes_to_one_node_or_to_several_or_sends() {
    paused(async {
        let command = |goto: Json| json!({ "command": { "goto": goto } });
        assert_eq!(finished().await.run(command(json!("c"))).await, RAN[2..]);
        assert_eq!(finished().await.run(command(json!(["c"]))).await, RAN[2..]);
        let several = finished().await.run(command(json!(["c", "b"]))).await;
        assert_eq!(several, [RAN[1], RAN[2], RAN[2]]);
        let send = json!({ "node": "c", "input": { "log": [] } });
        assert_eq!(finished().await.run(command(send.clone())).await, RAN[2..]);
        let both = finished().await.run(command(json!([send, "b"]))).await;
        assert_eq!(both.len(), 3);
        let server = finished().await;
        assert!(server.refused(command(json!(7))).await.contains("goto"));
        assert_eq!(server.checkpoints().await, 5);
    });
}

#[test]
fn a_command_updates_what_it_goes_on_with() {
    paused(async {
        let server = Server::new(line());
        server.run(json!({ "input": { "x": 1 }, "interrupt_before": ["c"] })).await;
        let events = server.run(json!({ "command": { "update": { "x": 5 } } })).await;
        assert_eq!(events, RAN[2..]);
        let state = server.get("state").await;
        assert_eq!(state["values"], json!({ "x": 5, "log": ["a", "b", "c"] }));
        // The thread has ended: the update waits for a step, and a second one to the same key is one
        // too many, as in LangGraph.
        let update = json!({ "command": { "update": { "x": 6 } } });
        assert_eq!(server.run(update).await, [""; 0]);
        assert_eq!(server.get("state").await["values"]["x"], 6);
        let again = json!({ "command": { "update": { "x": 7 }, "goto": "c" } });
        let events = server.run(again).await;
        assert_eq!(events.len(), 1);
        assert!(events[0].starts_with(r#"error {"error":"InvalidUpdateError""#), "{events:?}");
        assert!(events[0].contains(r#"\"x\""#), "{events:?}");
    });
}

/// `a` and `b` ask, beside each other.
fn asking() -> StateGraph {
    let asks = |name: &'static str| {
        move |_: State, context: NodeContext| async move {
            let answer = context.interrupt(format!("{name}?"))?;
            let answer = answer.as_str().unwrap_or_default();
            Ok::<_, NodeError>(Update::new().set("log", [format!("{name} {answer}")]))
        }
    };
    StateGraph::new("asking")
        .reduced_key("log", Reducer::append())
        .node("a", asks("a"))
        .node("b", asks("b"))
        .edge(START, "a")
        .edge(START, "b")
}

#[test]
fn a_command_answers_by_interrupt_id() {
    paused(async {
        let server = Server::new(asking());
        let asked = server.run(json!({ "input": {} })).await;
        let state = server.get("state").await;
        let waiting: Vec<(&str, &str)> = state["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| &task["interrupts"][0])
            .map(|asked| (asked["value"].as_str().unwrap(), asked["id"].as_str().unwrap()))
            .collect();
        assert_eq!([waiting[0].0, waiting[1].0], ["a?", "b?"]);
        // A client that only reads the stream can read the questions and answer them.
        let shown = waiting.iter().map(|(value, id)| {
            format!("updates {}", json!({ "__interrupt__": [{ "value": value, "id": id }] }))
        });
        assert_eq!(asked, shown.collect::<Vec<_>>());
        let events = server.run(json!({ "command": { "resume": "yes" } })).await;
        assert_eq!(events.len(), 1);
        assert!(events[0].starts_with(r#"error {"error":"RuntimeError""#), "{events:?}");
        let answers = json!({ waiting[0].1: "one", waiting[1].1: "two" });
        let events = server.run(json!({ "command": { "resume": answers } })).await;
        let answered = [r#"updates {"a":{"log":["a one"]}}"#, r#"updates {"b":{"log":["b two"]}}"#];
        assert_eq!(events, answered);
    });
}

#[test]
fn one_answer_by_id_leaves_the_other_question() {
    paused(async {
        let server = Server::new(asking());
        server.run(json!({ "input": {} })).await;
        let state = server.get("state").await;
        let id = state["tasks"][1]["interrupts"][0]["id"].as_str().unwrap();
        let body = json!({ "command": { "resume": { id: "two" } }, "stream_mode": "values" });
        let events = server.run(body).await;
        assert!(events.iter().any(|event| event.contains(r#""value":"a?""#)), "{events:?}");
        assert_eq!(server.get("state").await["next"], json!(["a"]));
        assert_eq!(server.get("state").await["values"], json!({ "log": ["b two"] }));
    });
}

#[test]
fn checkpoint_during_is_the_durability_of_before() {
    paused(async {
        for (said, checkpoints) in [
            (json!({}), 5),
            (json!({ "durability": "sync" }), 5),
            (json!({ "durability": "exit" }), 1),
            (json!({ "checkpoint_during": true }), 5),
            (json!({ "checkpoint_during": false }), 1),
        ] {
            let server = Server::new(line());
            let mut body = json!({ "input": { "x": 1 } });
            body.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
            assert_eq!(server.run(body).await, RAN);
            assert_eq!(server.checkpoints().await, checkpoints, "{said}");
        }
        let server = Server::new(line());
        for during in [true, false] {
            let both = json!({ "input": {}, "checkpoint_during": during, "durability": "async" });
            let problem = server.refused(both).await;
            assert!(problem.contains("durability") && problem.contains("checkpoint_during"));
        }
        assert_eq!(server.checkpoints().await, 0);
    });
}

#[test]
fn graphs_inside_are_streamed_when_that_is_asked_for() {
    paused(async {
        let graph = || {
            let outer = StateGraph::new("outer").key("x").reduced_key("log", Reducer::append());
            outer.subgraph("s", line()).sequence(&[START, "s", END])
        };
        let given = || json!({ "x": 1 });
        let outside = r#"updates {"s":{"x":1,"log":["a","b","c"]}}"#;
        for body in
            [json!({ "input": given() }), json!({ "input": given(), "stream_subgraphs": false })]
        {
            assert_eq!(Server::new(graph()).run(body).await, [outside]);
        }
        let body = json!({ "input": given(), "stream_subgraphs": true });
        let events = Server::new(graph()).run(body).await;
        assert_eq!(events[3], outside);
        for (event, shown) in events[..3].iter().zip(RAN) {
            let (name, data) = event.split_once(' ').unwrap();
            let (mode, namespace) = name.split_once('|').expect("a namespace");
            assert_eq!(format!("{mode} {data}"), shown);
            assert_eq!((&namespace[..2], namespace.len()), ("s:", 38));
        }
    });
}

#[test]
fn a_run_pauses_before_or_after_the_nodes_that_it_names_or_all() {
    paused(async {
        let server = Server::new(line());
        let with = |field: &str, nodes: Json| json!({ "input": null, field: nodes });
        let first = json!({ "input": { "x": 1 }, "interrupt_before": "*" });
        assert_eq!(server.run(first).await, [PAUSED]);
        let second = server.run(with("interrupt_before", json!("*"))).await;
        assert_eq!(second, [RAN[0], PAUSED]);
        let third = server.run(with("interrupt_before", json!(["c"]))).await;
        assert_eq!(third, [RAN[1], PAUSED]);
        let fourth = server.run(with("interrupt_after", json!("*"))).await;
        assert_eq!(fourth, [RAN[2], PAUSED]);
        let server = Server::new(line());
        let named = json!({ "input": { "x": 1 }, "interrupt_after": ["b"] });
        assert_eq!(server.run(named).await, [RAN[0], RAN[1], PAUSED]);
        assert_eq!(server.get("state").await["next"], json!(["c"]));
    });
}

#[test]
fn context_limit_and_configurable_reach_the_run() {
    paused(async {
        let graph = || {
            StateGraph::new("told")
                .key("user")
                .node("k", |_: State, context: NodeContext| async move {
                    let told: Json = context.context()?;
                    let tenant = context.configurable("tenant").cloned();
                    let user = json!([told["user"], tenant]);
                    Ok::<_, NodeError>(Update::new().set("user", user))
                })
                .sequence(&[START, "k", END])
        };
        let body = json!({
            "input": {},
            "context": { "user": "ann" },
            "config": { "configurable": { "tenant": "blue" } },
        });
        let events = Server::new(graph()).run(body).await;
        assert_eq!(events, [r#"updates {"k":{"user":["ann","blue"]}}"#]);
        let limited = json!({ "input": { "x": 1 }, "config": { "recursion_limit": 2 } });
        let events = Server::new(line()).run(limited).await;
        assert_eq!(events[..2], RAN[..2]);
        assert!(events[2].starts_with(r#"error {"error":"GraphRecursionError""#), "{events:?}");
    });
}

#[test]
fn a_deleted_thread_begins_anew() {
    paused(async {
        let server = finished().await;
        let delete = || Request::delete("/threads/t").body(Body::empty()).expect("a request");
        assert_eq!(server.ask(delete()).await, (StatusCode::NO_CONTENT, String::new()));
        assert_eq!(server.checkpoints().await, 0);
        // There is nothing left to delete, which is what was asked for.
        assert_eq!(server.ask(delete()).await.0, StatusCode::NO_CONTENT);
        assert_eq!(server.run(json!({ "input": { "x": 1 } })).await, RAN);
        assert_eq!(server.checkpoints().await, 5);
    });
}
