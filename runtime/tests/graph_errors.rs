//! Mistakes in a graph are found when it is compiled, and each error names the culprit.

use durasim_runtime::graph::GraphError;
use durasim_runtime::{Doors, END, NodeContext, Profile, START, State, StateGraph, Update};

fn graph(nodes: &[&str]) -> StateGraph {
    let nothing = |_: State, _: NodeContext| async { Ok(Update::new()) };
    nodes.iter().fold(StateGraph::new("g").key("k"), |graph, node| graph.node(node, nothing))
}

fn mistake(graph: StateGraph) -> GraphError {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _inside = runtime.enter();
    match graph.compile(None, &Doors::production(), Profile::Safe.options()) {
        Ok(_) => panic!("it compiles"),
        Err(error) => error,
    }
}

/// The message has each of these in it.
fn names(graph: StateGraph, culprits: &[&str]) {
    let message = mistake(graph).to_string();
    for culprit in culprits {
        assert!(message.contains(&format!("{culprit:?}")), "{culprit:?} is not named: {message}");
    }
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn an_edge_to_a_node_that_is_not_there() {
    names(graph(&["plan"]).edge(START, "plan").edge("plan", "chrage"), &["plan", "chrage"]);
    names(graph(&["plan"]).edge(START, "paln"), &["paln"]);
    names(graph(&["plan"]).edge(START, "plan").edge("paln", END), &["paln"]);
    names(graph(&["plan"]).edge(START, "plan").join(&["plan", "gone"], "plan"), &["gone"]);
    let routed =
        graph(&["plan"])
            .edge(START, "plan")
            .branch("plan", &[END, "gone"], |_: &State| Ok(vec![END.to_owned()]));
    names(routed, &["plan", "gone"]);
}

#[test]
fn a_name_that_is_used_twice() {
    let graph = graph(&["plan", "charge", "plan"]).edge(START, "plan").edge("plan", "charge");
    assert_eq!(mistake(graph), GraphError::Duplicate("plan".to_owned()));
    let keys = self::graph(&["plan"]).key("k").edge(START, "plan");
    assert_eq!(mistake(keys), GraphError::Duplicate("k".to_owned()));
}

#[test]
fn a_name_that_is_taken() {
    for name in [START, END, "", "__start__", "a:b", "a|b"] {
        let error = mistake(graph(&[name]).edge(START, name));
        assert_eq!(error, GraphError::ReservedName(name.to_owned()));
    }
}

#[test]
fn a_graph_that_nobody_enters() {
    assert_eq!(mistake(graph(&[])), GraphError::Empty);
    assert_eq!(mistake(graph(&["plan"]).edge("plan", END)), GraphError::NoEntry);
    assert!(mistake(graph(&["plan"])).to_string().contains("START"));
}

#[test]
fn a_node_that_no_path_reaches() {
    let island = graph(&["plan", "charge", "refund"])
        .edge(START, "plan")
        .edge("plan", "charge")
        .edge("charge", END)
        .edge("refund", "charge");
    assert_eq!(mistake(island), GraphError::Unreachable("refund".to_owned()));
}

#[test]
fn an_edge_the_wrong_way() {
    names(graph(&["plan"]).edge(START, "plan").edge(END, "plan"), &["END", "plan"]);
    names(graph(&["plan"]).edge(START, "plan").edge("plan", START), &["plan", "START"]);
}

/// The first mistake is the one that is told, and a graph without any compiles.
#[test]
fn the_first_mistake_is_told() {
    let twice = graph(&["plan", "plan", "a:b"]).edge(START, "gone");
    assert_eq!(mistake(twice), GraphError::Duplicate("plan".to_owned()));
    let sound = graph(&["plan"]).edge(START, "plan").edge("plan", END);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _inside = runtime.enter();
    assert!(sound.compile(None, &Doors::production(), Profile::Safe.options()).is_ok());
}
