//! State as a user's struct: what nodes read and write, and what is refused from outside.
#![cfg(not(madsim))]

use std::collections::BTreeMap;
use std::sync::Arc;

use durasim_runtime::channels::{ChannelSpec, Reducer, overwrite};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{ListFilter, Saver};
use durasim_runtime::graph::{self, Command, GraphError, StateError};
use durasim_runtime::pregel::{Input, RunConfig, RunError, StateUpdate};
use durasim_runtime::typed::Argument;
use durasim_runtime::value::{from_json, from_value, to_value};
use durasim_runtime::{
    CompiledGraph, Doors, END, NodeContext, NodeError, Profile, START, State, StateGraph,
    TypedGraph, Update, Value,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Clone, PartialEq, State)]
struct Booking {
    /// What was said.
    #[state(append)]
    messages: Vec<String>,
    #[state(add)]
    attempts: u32,
    #[state(reducer = Basket::merge)]
    basket: Basket,
    answer: Option<String>,
    status: Status,
    #[state(default, key = "table")]
    seat: u8,
    #[state(untracked)]
    scratch: Option<String>,
    #[state(any)]
    agreed: Option<bool>,
    #[state(topic)]
    news: Vec<u8>,
    #[state(topic(accumulates))]
    history: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct Basket {
    cents: Vec<u32>,
}

impl Basket {
    fn merge(mut self, more: Basket) -> Result<Basket, String> {
        if more.cents.contains(&0) {
            return Err("nothing is free".to_owned());
        }
        self.cents.extend(more.cents);
        Ok(self)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Open,
    Paid { euros: u32 },
}

const THREAD: &str = "t";

fn compiled(graph: impl Into<StateGraph>) -> CompiledGraph {
    let doors = Doors::production();
    let saver = Arc::new(MemorySaver::new(&doors));
    graph.into().compile(Some(saver), &doors, Profile::Safe.options()).expect("it compiles")
}

async fn run(graph: &CompiledGraph, input: impl Into<Update>) -> Result<(), RunError> {
    let input = Input::of(input).expect("an input that can be written");
    graph.invoke(input, RunConfig::new(THREAD)).await.map(drop)
}

async fn state(graph: &CompiledGraph) -> State {
    graph.get_state(THREAD, None).await.expect("a state").values
}

/// The whole thread, by checkpoint, oldest first.
async fn stored(graph: &CompiledGraph) -> Vec<State> {
    let history = graph.get_state_history(THREAD, ListFilter::default()).await.expect("a history");
    history.into_iter().rev().map(|snapshot| snapshot.values).collect()
}

async fn plan(booking: Booking, _: NodeContext) -> Result<BookingUpdate, NodeError> {
    assert_eq!((booking.answer, booking.seat), (None, 0));
    Ok(Booking::update()
        .messages(vec!["planned".into()])
        .attempts(2)
        .basket(Basket { cents: vec![5] })
        .scratch("for this run")
        .agreed(true)
        .news([1, 2])
        .history([1, 2]))
}

async fn charge(booking: Booking, _: NodeContext) -> Result<BookingUpdate, NodeError> {
    assert_eq!(booking.scratch.as_deref(), Some("for this run"));
    assert_eq!((booking.agreed, booking.news), (Some(true), vec![1, 2]));
    let euros = booking.basket.cents.iter().sum();
    Ok(Booking::update()
        .messages(["charged"])
        .answer("yes")
        .status(Status::Paid { euros })
        .history([3]))
}

fn two_steps() -> TypedGraph<Booking> {
    TypedGraph::new("booking")
        .node("plan", plan)
        .node("charge", charge)
        .sequence(&[START, "plan", "charge", END])
}

fn begin() -> BookingUpdate {
    Booking::update().status(Status::Open).messages(["hello"]).basket(Basket { cents: vec![7] })
}

#[tokio::test]
async fn writes_fold_and_leave_the_rest_alone() {
    let graph = compiled(two_steps());
    run(&graph, begin()).await.expect("it runs");
    let booking: Booking = state(&graph).await.to().expect("it fits");
    let expected = Booking {
        messages: ["hello", "planned", "charged"].map(str::to_owned).into(),
        attempts: 2,
        basket: Basket { cents: vec![7, 5] },
        answer: Some("yes".to_owned()),
        status: Status::Paid { euros: 12 },
        seat: 0,
        scratch: None,
        agreed: None,
        news: vec![],
        history: vec![1, 2, 3],
    };
    assert_eq!(booking, expected);
}

#[tokio::test]
async fn an_overwrite_goes_past_the_reducer() {
    let wipe = |_: (), _: NodeContext| async {
        Ok(Booking::update().overwrite_messages(["anew"]).overwrite_attempts(0))
    };
    let graph = TypedGraph::<Booking>::new("g").node("wipe", wipe).edge(START, "wipe");
    let graph = compiled(graph);
    run(&graph, begin().attempts(5)).await.expect("it runs");
    let booking: Booking = state(&graph).await.to().expect("it fits");
    assert_eq!((booking.messages, booking.attempts), (vec!["anew".to_owned()], 0));
}

/// The channel values of each checkpoint that a run leaves, oldest first.
async fn rows(graph: StateGraph, input: Update) -> Vec<BTreeMap<Arc<str>, Arc<Value>>> {
    let doors = Doors::production();
    let saver = MemorySaver::new(&doors);
    let graph = graph.compile(Some(Arc::new(saver.clone())), &doors, Profile::Safe.options());
    run(&graph.expect("it compiles"), input).await.expect("it runs");
    let tuples = saver.list(THREAD, None, ListFilter::default()).await.expect("a list");
    let values = tuples.into_iter().rev().map(|tuple| tuple.checkpoint.channel_values);
    values.map(|values| values.into_iter().collect()).collect()
}

/// The same writes through an untyped graph leave the same rows.
#[tokio::test]
async fn what_is_stored_is_what_an_untyped_graph_stores() {
    let merge = |sum: Value, write: &Value| {
        let read = |value| from_value::<Basket>(value).expect("a basket");
        to_value(&read(&sum).merge(read(write))?).map_err(|error| error.to_string())
    };
    let first = |_: State, _: NodeContext| async {
        Ok(Update::new()
            .set("messages", ["planned"])
            .set("attempts", 2)
            .set("basket", json!({ "cents": [5] }))
            .set("scratch", "for this run")
            .set("agreed", true)
            .set("news", [1, 2])
            .set("history", [1, 2]))
    };
    let second = |_: State, _: NodeContext| async {
        Ok(Update::new()
            .set("messages", ["charged"])
            .set("answer", "yes")
            .set("status", json!({ "paid": { "euros": 12 } }))
            .set("history", [3]))
    };
    let basket = from_json(json!({ "cents": [] }));
    let untyped = StateGraph::new("booking")
        .reduced_key("messages", Reducer::append())
        .reduced_key("attempts", Reducer::add())
        .reduced_key("basket", Reducer::new(basket, merge))
        .key("answer")
        .key("status")
        .key("table")
        .channel("scratch", ChannelSpec::Untracked)
        .channel("agreed", ChannelSpec::AnyValue)
        .channel("news", ChannelSpec::Topic { accumulates: false })
        .channel("history", ChannelSpec::Topic { accumulates: true })
        .node("plan", first)
        .node("charge", second)
        .sequence(&[START, "plan", "charge", END]);
    let input = Update::new()
        .set("status", "open")
        .set("messages", ["hello"])
        .set("basket", json!({ "cents": [7] }));
    let rows = rows(two_steps().into(), begin().into()).await;
    assert_eq!(rows.len(), 4);
    assert!(rows[3].contains_key("history") && !rows[3].contains_key("scratch"), "{rows:?}");
    assert_eq!(rows, self::rows(untyped, input).await);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Guest {
    name: String,
}

#[tokio::test]
async fn commands_and_sends_are_typed() {
    let invite = |_: (), _: NodeContext| async {
        let guest = |name: &str| graph::Send::with("greet", &Guest { name: name.to_owned() });
        let update = Booking::update().answer("invited");
        Ok(Command::new().update(update).goto(guest("Ada")?).goto(guest("Bob")?).goto("count"))
    };
    let greet = |Argument(guest): Argument<Guest>, _: NodeContext| async move {
        Ok(Booking::update().messages([format!("hello {}", guest.name)]))
    };
    let count = |booking: Booking, _: NodeContext| async move {
        assert_eq!(booking.answer.as_deref(), Some("invited"));
        Ok(Booking::update().attempts(1))
    };
    let graph = TypedGraph::<Booking>::new("g")
        .node_with("invite", graph::NodeOptions::new().destinations(&["greet", "count"]), invite)
        .node("greet", greet)
        .node("count", count)
        .edge(START, "invite");
    let graph = compiled(graph);
    run(&graph, Booking::update().status(Status::Open)).await.expect("it runs");
    let booking: Booking = state(&graph).await.to().expect("it fits");
    assert_eq!(booking.messages, ["hello Ada", "hello Bob"]);
    assert_eq!(booking.attempts, 1);
}

/// Some of the keys of [`Booking`].
#[derive(State)]
struct Counter {
    #[state(add)]
    attempts: u32,
}

#[tokio::test]
async fn a_branch_sees_the_state_after_the_nodes_writes() {
    let attempt = |seen: Counter, _: NodeContext| async move {
        Ok(Booking::update().attempts(1).messages([format!("attempt {}", seen.attempts)]))
    };
    let again = |seen: &Counter| if seen.attempts < 3 { "attempt" } else { END };
    let graph = TypedGraph::<Booking>::new("g").node("attempt", attempt).edge(START, "attempt");
    let graph = compiled(graph.branch("attempt", &["attempt", END], again));
    run(&graph, Booking::update()).await.expect("it runs");
    let messages: Vec<String> = state(&graph).await.get("messages").expect("messages");
    assert_eq!(messages, ["attempt 0", "attempt 1", "attempt 2"]);
}

#[tokio::test]
async fn a_branch_sends() {
    let each = |booking: &Booking| -> Result<Vec<graph::Send>, StateError> {
        booking.messages.iter().map(|text| graph::Send::with("count", text)).collect()
    };
    let graph = TypedGraph::<Booking>::new("g")
        .node("plan", |_: (), _: NodeContext| async { Ok(()) })
        .node("count", |Argument(text): Argument<String>, _: NodeContext| async move {
            Ok(Booking::update().attempts(text.len() as u32))
        })
        .edge(START, "plan")
        .branch("plan", &["count"], each);
    let graph = compiled(graph);
    let input = Booking::update().status(Status::Open).messages(["one", "three"]);
    run(&graph, input).await.expect("it runs");
    assert_eq!(state(&graph).await.get::<u32>("attempts"), Ok(8));
}

#[tokio::test]
async fn a_missing_field_is_named_with_its_node() {
    let graph = compiled(two_steps());
    let error = run(&graph, Booking::update()).await.expect_err("there is no status");
    let text = r#"node "plan": StateError: the state has no value for "status""#;
    assert_eq!(error.to_string(), text);
}

/// An update by keys is not checked; who reads it tells what is wrong.
#[tokio::test]
async fn a_misfit_in_the_state_is_named_with_its_node() {
    let careless = |_: (), _: NodeContext| async {
        Ok(Update::new().set("basket", json!({ "cents": [] })).set("answer", 7))
    };
    let graph = TypedGraph::<Booking>::new("g")
        .node("careless", careless)
        .node("charge", charge)
        .sequence(&[START, "careless", "charge"]);
    let error = run(&compiled(graph), begin()).await.expect_err("a number is no answer");
    let text = "node \"charge\": StateError: state key \"answer\": \
                invalid type: integer `7`, expected a string";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn a_fold_may_refuse() {
    let graph = compiled(two_steps());
    let error = run(&graph, begin().basket(Basket { cents: vec![0] })).await;
    let error = error.expect_err("nothing is free").to_string();
    assert!(error.contains("\"basket\"") && error.contains("nothing is free"), "{error}");
}

#[tokio::test]
async fn an_input_that_does_not_fit_changes_nothing() {
    let graph = compiled(two_steps());
    let new = |input| Input::New(from_json(input));
    let refused = async |input: Input| match graph.invoke(input, RunConfig::new(THREAD)).await {
        Err(error @ RunError::BadInput(_)) => error.to_string(),
        other => panic!("it is not refused for its input: {other:?}"),
    };
    let text = "the input: state key \"answer\": invalid type: integer `7`, expected a string";
    assert_eq!(refused(new(json!({ "status": "open", "answer": 7 }))).await, text);
    assert_eq!(stored(&graph).await, [], "there is no thread");

    run(&graph, begin()).await.expect("it runs");
    let before = stored(&graph).await;
    let misfits = [
        (json!({ "messages": "one" }), "\"messages\": invalid type: string \"one\""),
        (json!({ "messages": [1] }), "\"messages\": [0]: invalid type: integer `1`"),
        (json!({ "messages": { "__overwrite__": 1 } }), "\"messages\": invalid type"),
        (json!({ "attempts": -1 }), "\"attempts\": invalid value: integer `-1`"),
        (json!({ "basket": { "cents": [1, "2"] } }), "\"basket\": cents[1]: invalid type"),
        (json!({ "status": "shut" }), "\"status\": unknown variant `shut`"),
        (json!({ "status": null }), "\"status\": invalid type: unit value"),
        (json!({ "table": 300 }), "\"table\": invalid value: integer `300`"),
        (json!({ "news": 300 }), "\"news\": invalid value: integer `300`"),
        (json!([1]), "a map from state keys to values is expected, and not [1]"),
    ];
    for (input, text) in misfits {
        let error = refused(new(input.clone())).await;
        assert!(error.contains(text), "{input}: {error}");
    }
    let command = Command::new().update(Update::new().set("answer", 7)).goto("plan");
    assert_eq!(refused(Input::Command(command)).await, text);
    let update = StateUpdate::new(Update::new().set("answer", 7)).as_node("plan");
    let error = graph.update_state(THREAD, None, update).await.expect_err("it does not fit");
    assert_eq!(error.to_string(), text.replace("the input", "the update"));
    assert_eq!(stored(&graph).await, before);
}

#[tokio::test]
async fn an_input_that_fits_is_taken() {
    let graph = compiled(two_steps());
    let input = json!({
        "status": { "paid": { "euros": 1 } },
        "answer": null,
        "news": 3,
        "messages": { "__overwrite__": ["anew"] },
        "no key of it": true,
    });
    let input = Input::New(from_json(input));
    graph.invoke(input, RunConfig::new(THREAD)).await.expect("it is taken");
    let messages = overwrite(&["late"]).expect("an overwrite");
    let update = Update::new().set_value("messages", messages);
    let update = StateUpdate::new(update).as_node("charge");
    graph.update_state(THREAD, None, update).await.expect("it is taken");
    let update = StateUpdate::new(Booking::update().messages(["later"])).as_node("charge");
    graph.update_state(THREAD, None, update).await.expect("it is taken");
    let booking: Booking = state(&graph).await.to().expect("it fits");
    assert_eq!(booking.messages, ["late", "later"]);
}

/// What an input may not write is left out, so it need not fit.
#[tokio::test]
async fn an_input_is_checked_by_the_keys_that_it_may_write() {
    let graph = compiled(two_steps().input_keys(&["status"]));
    let input = Input::New(from_json(json!({ "status": "open", "table": "none" })));
    graph.invoke(input, RunConfig::new(THREAD)).await.expect("it is taken");
    assert_eq!(state(&graph).await.get::<u8>("table"), Err(StateError::Missing("table".into())));
}

/// The body of the response to an input.
async fn post(graph: CompiledGraph, body: serde_json::Value) -> (u16, serde_json::Value) {
    use axum::body::{Body, to_bytes};
    use durasim_runtime::http::{HandlerConfig, HandlerShape, router};
    use hyper::service::Service;

    let router = router(HandlerShape::Inline, graph, HandlerConfig::default());
    let request = axum::http::Request::post("/threads/t/runs/stream")
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .expect("a request");
    let service = hyper_util::service::TowerToHyperService::new(router);
    let response = service.call(request).await.expect("a response");
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

#[tokio::test]
async fn a_request_whose_input_does_not_fit_is_refused() {
    let graph = compiled(two_steps());
    let (status, problem) = post(graph.clone(), json!({ "input": { "answer": 7 } })).await;
    let detail = "state key \"answer\": invalid type: integer `7`, expected a string";
    assert_eq!((status, &problem["detail"]), (422, &json!(detail)));
    assert_eq!(stored(&graph).await, []);
    assert_eq!(post(graph, json!({ "input": { "status": "open" } })).await.0, 200);
}

#[tokio::test]
async fn graphs_go_into_graphs() {
    let pay = |seen: Counter, _: NodeContext| async move {
        assert_eq!(seen.attempts, 1);
        Ok(Counter::update().attempts(1))
    };
    let inside = TypedGraph::<Counter>::new("pay").node("pay", pay).edge(START, "pay");
    let graph = TypedGraph::<Booking>::new("g").subgraph("pay", inside).edge(START, "pay");
    let graph = compiled(graph);
    run(&graph, begin().attempts(1)).await.expect("it runs");
    // What the graph inside ends with, 2, is added to what is there.
    assert_eq!(state(&graph).await.get::<u32>("attempts"), Ok(3));
}

mod of_the_same_name {
    use durasim_runtime::typed::State;

    #[derive(State)]
    pub struct State {
        pub answer: Option<String>,
        r#type: Option<u8>,
    }

    pub fn begin(answer: &str) -> StateUpdate {
        State::update().answer(answer).r#type(1)
    }

    pub fn parts(state: State) -> (Option<String>, Option<u8>) {
        (state.answer, state.r#type)
    }
}

#[tokio::test]
async fn a_state_may_be_called_state() {
    let graph = TypedGraph::<of_the_same_name::State>::new("g")
        .node("plan", |_: (), _: NodeContext| async { Ok(()) })
        .edge(START, "plan");
    let graph = compiled(graph);
    run(&graph, of_the_same_name::begin("yes").answer(None)).await.expect("it runs");
    assert_eq!(state(&graph).await.get("type"), Ok(1));
    let read = state(&graph).await.to().expect("it fits");
    assert_eq!(of_the_same_name::parts(read), (None, Some(1)));
}

#[derive(State)]
#[allow(dead_code)] // Only its keys count.
struct Other {
    payment: Option<String>,
}

#[tokio::test]
async fn a_node_that_reads_what_the_graph_does_not_have() {
    let graph = TypedGraph::<Booking>::new("g")
        .node("pay", |_: Other, _: NodeContext| async { Ok(()) })
        .edge(START, "pay");
    let compiled = graph.compile(None, &Doors::production(), Profile::Safe.options());
    let unknown =
        GraphError::NoSuchKey { place: "node \"pay\"".to_owned(), key: "payment".to_owned() };
    assert_eq!(compiled.err(), Some(unknown));
}
