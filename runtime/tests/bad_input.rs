//! What a thread refuses: each with an error that names the thing, and the thread as it was.

use std::sync::Arc;

use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{ListFilter, Put};
use durasim_runtime::checkpoint::{Checkpoint, ThreadKey};
use durasim_runtime::graph::{Command, Send};
use durasim_runtime::pregel::{Input, RunConfig, RunError, StateUpdate};
use durasim_runtime::value;
use durasim_runtime::{
    CompiledGraph, Doors, END, NodeContext, NodeError, Profile, START, Saver as _, State,
    StateGraph, Update, Value,
};

/// Asks for approval after a first step.
fn approval() -> StateGraph {
    StateGraph::new("approval")
        .key("plan")
        .key("answer")
        .node("plan", |_: State, _| async { Ok::<_, NodeError>(Update::new().set("plan", "fly")) })
        .node("ask", |_: State, context: NodeContext| async move {
            let answer = context.interrupt("really?")?;
            Ok::<_, NodeError>(Update::new().set_value("answer", answer))
        })
        .sequence(&[START, "plan", "ask", END])
}

/// A graph, and its saver beside it.
struct Bench {
    graph: CompiledGraph,
    saver: Arc<MemorySaver>,
}

impl Bench {
    fn new(graph: StateGraph) -> Bench {
        let doors = Doors::production();
        let saver = Arc::new(MemorySaver::new(&doors));
        let options = Profile::Safe.options();
        let graph = graph.compile(Some(saver.clone()), &doors, options).unwrap();
        Bench { graph, saver }
    }

    async fn begun(graph: StateGraph) -> Bench {
        let bench = Bench::new(graph);
        bench.graph.invoke(Input::New(value::map::<&str>([])), RunConfig::new("t")).await.unwrap();
        bench
    }

    /// Everything that is stored of the thread.
    async fn stored(&self) -> String {
        let stored = self.saver.list("t", None, ListFilter::default()).await.unwrap();
        format!("{stored:#?}")
    }

    /// The error of a run that leaves the thread as it was.
    async fn refused(&self, input: Input, config: RunConfig) -> RunError {
        let before = self.stored().await;
        let error = self.graph.invoke(input, config).await.unwrap_err();
        assert_eq!(self.stored().await, before, "{error}");
        error
    }
}

fn is_named(error: &RunError, names: &[&str]) {
    let text = error.to_string();
    names.iter().for_each(|name| assert!(text.contains(name), "{name:?} in {text:?}"));
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for() {
    let bench = Bench::begun(approval()).await;
    let answer = || Input::Command(Command::resume("yes"));
    bench.graph.invoke(answer(), RunConfig::new("t")).await.unwrap();
    let error = bench.refused(answer(), RunConfig::new("t")).await;
    assert!(matches!(error, RunError::NothingAsked { .. }), "{error:?}");
    is_named(&error, &["t"]);
}

#[tokio::test]
async fn an_answer_to_an_interrupt_that_is_not_there() {
    let bench = Bench::begun(approval()).await;
    let id = "0123456789abcdef0123456789abcdef";
    let command = Command::new().answer(id, "yes");
    let error = bench.refused(Input::Command(command), RunConfig::new("t")).await;
    assert!(matches!(error, RunError::UnknownInterrupt { .. }), "{error:?}");
    let waiting = bench.graph.get_state("t", None).await.unwrap().tasks[0].interrupts[0].1.clone();
    is_named(&error, &[id, &waiting]);
}

#[tokio::test]
async fn an_empty_command() {
    let bench = Bench::begun(approval()).await;
    let error = bench.refused(Input::Command(Command::new()), RunConfig::new("t")).await;
    assert!(matches!(error, RunError::EmptyCommand), "{error:?}");
}

#[tokio::test]
async fn a_command_that_goes_nowhere() {
    let bench = Bench::begun(approval()).await;
    for command in [Command::new().goto("moon"), Command::new().goto(Send::new("moon", 1))] {
        let error = bench.refused(Input::Command(command), RunConfig::new("t")).await;
        assert!(matches!(error, RunError::BadCommand { .. }), "{error:?}");
        is_named(&error, &["moon"]);
    }
    let parent = Input::Command(Command::new().goto("plan").to_parent());
    let error = bench.refused(parent, RunConfig::new("t")).await;
    assert!(matches!(error, RunError::NoParent), "{error:?}");
}

#[tokio::test]
async fn a_checkpoint_that_is_not_there() {
    let bench = Bench::begun(approval()).await;
    let lost = "1f0e0000-0000-6000-8000-000000000000";
    for input in [Input::Resume, Input::New(value::map::<&str>([]))] {
        let error = bench.refused(input, RunConfig::new("t").checkpoint(lost)).await;
        assert!(matches!(error, RunError::UnknownCheckpoint { .. }), "{error:?}");
        is_named(&error, &[lost, "t"]);
    }
    let update = StateUpdate::new(Update::new().set("plan", "walk"));
    let error = bench.graph.update_state("t", Some(lost), update).await.unwrap_err();
    is_named(&error, &[lost]);
}

/// Older releases of LangGraph wrote layouts up to 3. A saver keeps them, and nothing goes on from them.
#[tokio::test]
async fn a_checkpoint_of_an_older_layout() {
    let bench = Bench::begun(approval()).await;
    let head = bench.saver.get_tuple(&ThreadKey::root("t"), None).await.unwrap().unwrap();
    let old = Checkpoint { layout: 3, ..head.checkpoint };
    bench.saver.put(Put::new(&head.key, None, old.clone(), head.metadata)).await.unwrap();
    let kept = bench.saver.get_tuple(&head.key, None).await.unwrap().unwrap();
    assert_eq!(kept.checkpoint, old);

    for input in [Input::Resume, Input::New(value::map::<&str>([]))] {
        let error = bench.refused(input, RunConfig::new("t")).await;
        is_named(&error, &["t", &old.id, "layout version 3"]);
    }
    is_named(&bench.graph.get_state("t", None).await.unwrap_err(), &["layout version 3"]);
    let history = bench.graph.get_state_history("t", ListFilter::default()).await;
    is_named(&history.unwrap_err(), &["layout version 3"]);
    let update = StateUpdate::new(Update::new().set("plan", "walk"));
    let error = bench.graph.update_state("t", None, update).await.unwrap_err();
    is_named(&error, &["layout version 3"]);
}

#[tokio::test]
async fn an_update_as_a_node_that_is_not_there() {
    let bench = Bench::begun(approval()).await;
    let before = bench.stored().await;
    let update = || StateUpdate::new(Update::new().set("plan", "walk"));
    let error = bench.graph.update_state("t", None, update().as_node("moon")).await.unwrap_err();
    assert!(matches!(error, RunError::BadUpdate { .. }), "{error:?}");
    is_named(&error, &["moon"]);
    let several = vec![vec![update(), update().as_node("plan")]];
    let error = bench.graph.bulk_update_state("t", None, several).await.unwrap_err();
    is_named(&error, &["as_node"]);
    let error = bench.graph.bulk_update_state("t", None, vec![vec![]]).await.unwrap_err();
    is_named(&error, &["nothing to write"]);
    assert_eq!(bench.stored().await, before);
}

#[tokio::test]
async fn a_node_that_sends_to_nowhere() {
    let graph = StateGraph::new("lost")
        .key("plan")
        .node("split", |_: State, _| async {
            Ok::<_, NodeError>(Command::new().goto(Send::new("moon", Value::from(1))))
        })
        .edge(START, "split");
    let bench = Bench::new(graph);
    let input = Input::New(value::map::<&str>([]));
    let error = bench.graph.invoke(input, RunConfig::new("t")).await.unwrap_err();
    is_named(&error, &["split", "moon"]);
    // The step is still to be made.
    let state = bench.graph.get_state("t", None).await.unwrap();
    assert_eq!(&*state.next[0], "split");
}

#[tokio::test]
async fn nothing_to_go_on_with() {
    let bench = Bench::new(approval());
    let error = bench.refused(Input::Resume, RunConfig::new("t")).await;
    assert!(matches!(error, RunError::EmptyInput { .. }), "{error:?}");
    is_named(&error, &["t"]);
}

#[tokio::test]
async fn an_input_that_is_no_map() {
    let bench = Bench::new(approval());
    let input = Input::New(Value::from(7));
    let error = bench.graph.invoke(input, RunConfig::new("t")).await.unwrap_err();
    is_named(&error, &["7"]);
}

#[tokio::test]
async fn a_history_of_a_graph_that_is_not_inside() {
    let bench = Bench::begun(approval()).await;
    let look = bench.graph.get_state_history_inside("t", "plan:1", ListFilter::default());
    let error = look.await.unwrap_err();
    is_named(&error, &["plan:1", "plan"]);
}

#[test]
fn an_error_has_the_class_of_the_real_stack() {
    let class = |error: RunError| error.class().to_owned();
    assert_eq!(class(RunError::NothingAsked { thread: "t".into() }), "RuntimeError");
    assert_eq!(class(RunError::EmptyCommand), "EmptyInputError");
    assert_eq!(class(RunError::NoParent), "InvalidUpdateError");
}
