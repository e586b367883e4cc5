//! Requests that make no sense, sent to a server of the simulated world: each is refused in words,
//! leaves nothing behind, and the next person is served as if nothing had happened.
#![cfg(madsim)]

mod raw;
mod settings;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use durasim_properties::scenario::{Fault, Leave, Scenario, Step, When};
use durasim_properties::world::{RunPlan, run_beside};
use durasim_properties::{GraphWorld, Outcome, Registry};
use durasim_runtime::{END, NodeContext, NodeError, START, State, StateGraph, Update};
use durasim_sim::World;
use hyper::Request;
use serde_json::json;

use raw::{Answer, ask};
use settings::booking;

const RUN: &str = "/threads/t/runs/stream";
const GOOD: &str = r#"{ "input": { "steps": [] } }"#;

/// What there was when the strange request had been answered and everybody else was still away.
#[derive(Debug, Clone)]
struct Answered {
    answer: Answer,
    checkpoints: i64,
    writes: i64,
    effects: usize,
}

/// Sends one request; later a person books a trip on a thread of her own.
fn send(registry: &Registry, scenario: Scenario, request: Request<Bytes>) -> (Answered, Outcome) {
    let answered: Arc<Mutex<Option<Answered>>> = Arc::default();
    let told = answered.clone();
    let plan = RunPlan { seed: 1, ..RunPlan::default() };
    let outcome = run_beside(registry, &scenario, plan, async move |world: World| {
        let stranger = world.process("stranger", "stranger", |_| Box::pin(async {}));
        let answer = ask(&stranger, request).await;
        world.sleep(Duration::from_secs(1)).await;
        let rows = world.inspect_sqlite("server", "checkpoints.sqlite").expect("a database");
        let count = |table| {
            let sql = format!("SELECT count(*) FROM {table}");
            rows.query_row(&sql, [], |row| row.get(0)).expect("the tables are there")
        };
        let effects = world
            .trace()
            .with(|events| events.iter().filter(|event| event.name == "effect.executed").count());
        let (checkpoints, writes) = (count("checkpoints"), count("writes"));
        *told.lock().unwrap() = Some(Answered { answer, checkpoints, writes, effects });
    });
    assert_eq!(outcome.crash, None);
    let answered = answered.lock().unwrap().take().expect("the stranger got an answer");
    (answered, outcome)
}

/// A booking by somebody with manners, once the stranger is done.
fn booking_later() -> Scenario {
    booking(vec![Step::Wait { ms: 10_000 }, message()], vec![])
}

fn message() -> Step {
    Step::Send { input: json!({ "steps": [] }), leave: Leave::Never }
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Bytes> {
    Request::post(path).header("host", "server-1").body(body.into()).expect("a request")
}

fn with(mut request: Request<Bytes>, header: &'static str, value: &[u8]) -> Request<Bytes> {
    let value = hyper::header::HeaderValue::from_bytes(value).expect("bytes of a header");
    request.headers_mut().insert(header, value);
    request
}

/// Refused with this status and a detail that has `named` in it; nothing stored, nothing executed;
/// the next person is served.
fn is_refused(request: Request<Bytes>, status: u16, named: &str) {
    let asked = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
    let (answered, outcome) = send(&Registry::builtin(), booking_later(), request);
    let answer = &answered.answer;
    assert_eq!(answer.status, status, "{asked}: {answer:?}");
    assert_eq!(answer.kind, "application/problem+json", "{asked}: {answer:?}");
    assert!(!answer.broken);
    let problem = answer.json();
    assert_eq!(problem["status"], status, "{asked}: {problem}");
    assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()), "{problem}");
    let said = format!("{}: {}", problem["title"], problem["detail"]);
    assert!(said.contains(named), "{asked}: does not name {named:?}: {said}");
    let left = (answered.checkpoints, answered.writes, answered.effects);
    assert_eq!(left, (0, 0, 0), "{asked}: rows, or an effect, of a request that was refused");
    let endings: Vec<&str> = outcome.sights.iter().map(|sight| &*sight.ending).collect();
    assert_eq!(endings, ["complete"], "{asked}");
    assert_eq!(outcome.transcript("trip-7"), ["plan", "charge", "notify", "finish"]);
}

#[test]
fn a_thread_id_that_is_no_name() {
    let on = |thread: &str| post(&format!("/threads/{thread}/runs/stream"), GOOD);
    is_refused(on(""), 400, "empty");
    is_refused(on("%FF"), 400, "UTF-8");
    is_refused(on("a%C3%28b"), 400, "UTF-8");
    is_refused(on("%00"), 400, "U+0000");
    is_refused(on("a%0Ab"), 400, "U+000A");
    is_refused(on("a%1Bb"), 400, "U+001B");
    is_refused(on("a%7Fb"), 400, "U+007F");
    is_refused(on("a%C2%85b"), 400, "U+0085");
    is_refused(on(&"x".repeat(513)), 400, "513");
    is_refused(on(&"x".repeat(10_000)), 400, "10000");
    let state = |thread: &str| {
        let path = format!("/threads/{thread}/state");
        Request::get(path).header("host", "s").body(Bytes::new()).expect("a request")
    };
    is_refused(state("%FF"), 400, "UTF-8");
    is_refused(state("%00"), 400, "U+0000");
}

#[test]
fn a_body_that_is_not_json() {
    for body in ["", "input", "{", r#"{"input": {}"#, r#"{"input": NaN}"#, "{'input': {}}", "\0"] {
        is_refused(post(RUN, body), 400, "JSON");
    }
    is_refused(post(RUN, &b"{\"input\": \"\xff\"}"[..]), 400, "JSON");
    is_refused(post(RUN, "[".repeat(100_000)), 400, "JSON");
}

#[test]
fn json_of_the_wrong_shape() {
    for (body, named) in [
        ("[]", "input"),
        ("7", "input"),
        ("null", "input"),
        (r#""plan""#, "input"),
        ("{}", "input"),
        (r#"{ "inptu": {} }"#, "inptu"),
        (r#"{ "input": {}, "durability": "maybe" }"#, "maybe"),
        (r#"{ "input": {}, "durability": 3 }"#, "durability"),
        (r#"{ "input": {}, "stream_mode": "telepathy" }"#, "stream_mode"),
        (r#"{ "input": {}, "stream_mode": 7 }"#, "stream_mode"),
        (r#"{ "input": {}, "checkpoint_id": 7 }"#, "checkpoint_id"),
        (r#"{ "input": {}, "config": [7] }"#, "config"),
        (r#"{ "input": {}, "config": { "recursion_limit": -1 } }"#, "recursion_limit"),
        (r#"{ "input": {}, "config": { "recursion_limit": "5" } }"#, "recursion_limit"),
        (r#"{ "input": {}, "config": { "configurable": 1 } }"#, "configurable"),
        (r#"{ "input": {}, "config": { "tags": [] } }"#, "tags"),
        (r#"{ "command": {} }"#, "resume"),
        (r#"{ "command": { "leap": "charge" } }"#, "leap"),
        (r#"{ "command": { "goto": 7 } }"#, "goto"),
        (r#"{ "command": { "update": [7] } }"#, "update"),
        (r#"{ "input": {}, "durability": "sync", "checkpoint_during": true }"#, "exclude"),
        (r#"{ "input": {}, "interrupt_before": 7 }"#, "interrupt_before"),
        (r#"{ "input": {}, "stream_subgraphs": "yes" }"#, "stream_subgraphs"),
        (r#"{ "command": 7 }"#, "command"),
        (r#"{ "input": {}, "command": { "resume": 1 } }"#, "exclude"),
        (r#"[{}, null, null, null, null, {}]"#, "input"),
        (r#"{ "input": {}, "config": [5, {}] }"#, "config"),
        (r#"{ "command": [5] }"#, "command"),
    ] {
        is_refused(post(RUN, body), 422, named);
    }
}

#[test]
fn a_body_that_is_too_large() {
    let huge = format!(r#"{{ "input": {{ "steps": ["{}"] }} }}"#, "x".repeat(3 << 20));
    is_refused(post(RUN, huge), 413, "limit");
}

#[test]
fn a_resource_that_is_not_there() {
    is_refused(post("/threads/t/runs", GOOD), 404, "/threads/t/runs");
    is_refused(post("/", GOOD), 404, "/");
    let method = |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("host", "s");
        request.body(Bytes::new()).expect("a request")
    };
    is_refused(method("GET", RUN), 405, RUN);
    is_refused(method("DELETE", RUN), 405, RUN);
    is_refused(method("BREW", RUN), 405, RUN);
    is_refused(method("POST", "/threads/t/state"), 405, "/threads/t/state");
}

#[test]
fn a_request_id_that_is_no_name() {
    for id in [&b""[..], b"\xff\xfe", "x".repeat(513).as_bytes()] {
        is_refused(with(post(RUN, GOOD), "x-request-id", id), 400, "x-request-id");
    }
}

/// So that a refusal is not just how this server answers everything.
#[test]
fn what_is_right_is_taken() {
    for request in [
        post(RUN, GOOD),
        with(post(RUN, GOOD), "x-request-id", b"r-1"),
        post("/threads/a%20b%2Fc/runs/stream", GOOD),
        post("/threads/caf%C3%A9/runs/stream", r#"{ "input": {}, "stream_mode": ["updates"] }"#),
        post(&format!("/threads/{}/runs/stream", "x".repeat(512)), GOOD),
    ] {
        let scenario = booking_later();
        let (answered, _) = send(&Registry::builtin(), scenario, request);
        let answer = answered.answer;
        assert_eq!((answer.status, &*answer.kind), (200, "text/event-stream"), "{answer:?}");
        assert_eq!(answer.events(), ["updates", "updates", "updates", "updates", "end"]);
        assert_eq!(answered.effects, 4);
        // The input and the steps 0 to 4.
        assert_eq!(answered.checkpoints, 6);
    }
}

/// A charge that is declined, after a plan that worked.
fn declined(_: &GraphWorld) -> StateGraph {
    StateGraph::new("declined")
        .key("steps")
        .node("plan", |_: State, _: NodeContext| async { Ok(Update::new().set("steps", ["plan"])) })
        .node("charge", |_: State, _: NodeContext| async {
            Err::<Update, _>(NodeError::failed("CardDeclined", "no money left"))
        })
        .edge(START, "plan")
        .edge("plan", "charge")
        .edge("charge", END)
}

#[test]
fn a_node_that_fails_is_told_as_an_error_and_not_as_an_end() {
    let registry = Registry::new().graph("declined", declined);
    let scenario = Scenario { graph: "declined".to_owned(), ..booking_later() };
    let (answered, outcome) = send(&registry, scenario, post(RUN, GOOD));
    let answer = answered.answer;
    assert_eq!(answer.events(), ["updates", "error"], "{answer:?}");
    assert!(answer.body.contains("CardDeclined") && answer.body.contains("no money left"));
    assert!(!answer.broken);
    assert_eq!(outcome.sights[0].ending, "failed");
    assert_eq!(outcome.sights[0].problem.as_deref(), Some("CardDeclined"));
}

/// There is nothing to continue, which shows only once the thread is loaded: the stream has begun.
#[test]
fn continuing_an_empty_thread_is_told_as_an_error() {
    let nothing = post(RUN, r#"{ "input": null }"#);
    let (answered, outcome) = send(&Registry::builtin(), booking_later(), nothing);
    assert_eq!(answered.answer.events(), ["error"], "{answered:?}");
    assert!(answered.answer.body.contains("EmptyInputError"));
    assert_eq!((answered.checkpoints, answered.writes, answered.effects), (0, 0, 0));
    assert_eq!(outcome.sights[0].ending, "complete", "the next person is served");
}

/// A crash never looks like a clean end, whenever it comes.
#[test]
fn a_server_that_dies_in_mid_stream_is_seen_to_break() {
    for at in (20..2_600).step_by(60) {
        let kill = Fault::Kill {
            process: "server-1".to_owned(),
            when: When::AtMs(at),
            restart_after_ms: 10,
        };
        let scenario = booking(vec![message(), Step::Wait { ms: 5_000 }], vec![kill]);
        let (answered, outcome) = send(&Registry::builtin(), scenario, post(RUN, GOOD));
        let answer = answered.answer;
        assert!(answer.broken, "killed at {at} ms: {answer:?}");
        let events = answer.events();
        assert!(events.iter().all(|event| *event == "updates"), "killed at {at} ms: {events:?}");
        assert_eq!(outcome.sights[0].ending, "broken", "killed at {at} ms");
    }
}
