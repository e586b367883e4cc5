//! Mistakes in a graph are found when it is compiled, and each error names the culprit.

use durasim_runtime::channels::{ChannelSpec, Reducer};
use durasim_runtime::graph::{GraphError, NodeOptions};
use durasim_runtime::{
    CompiledGraph, Doors, END, NodeContext, Profile, START, State, StateGraph, Update,
};

fn graph(nodes: &[&str]) -> StateGraph {
    let nothing = |_: State, _: NodeContext| async { Ok(Update::new()) };
    nodes.iter().fold(StateGraph::new("g").key("k"), |graph, node| graph.node(node, nothing))
}

fn compiled(graph: StateGraph, profile: Profile) -> Result<CompiledGraph, GraphError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let _inside = runtime.enter();
    graph.compile(None, &Doors::production(), profile.options())
}

fn mistake(graph: StateGraph) -> GraphError {
    match compiled(graph, Profile::Safe) {
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
    let sound = compiled(sound, Profile::Safe).expect("there is no mistake");
    assert_eq!(sound.warnings(), []);
}

#[test]
fn a_static_interrupt_at_a_node_that_is_not_there() {
    let plan = || graph(&["plan"]).edge(START, "plan");
    names(plan().interrupt_before(&["plan", "paln"]), &["paln"]);
    names(plan().interrupt_after(&["paln"]), &["paln"]);
    let error = mistake(plan().interrupt_before(&["paln"]));
    assert_eq!(error.to_string(), r#"interrupt_before names "paln", and there is no such node"#);
    assert!(compiled(plan().interrupt_before(&["*"]), Profile::Safe).is_ok());
}

#[test]
fn a_key_that_is_not_declared() {
    let plan = || graph(&["plan"]).edge(START, "plan");
    let error = mistake(plan().input_keys(&["k", "kk"]));
    assert_eq!(error.to_string(), r#"input_keys names "kk", which is no key of the state"#);
    names(plan().output_keys(&["kk"]), &["kk"]);
    let nothing = |_: State, _: NodeContext| async { Ok(Update::new()) };
    let with = |options| StateGraph::new("g").key("k").node_with("plan", options, nothing);
    let reads = with(NodeOptions::new().reads(&["kk"])).edge(START, "plan");
    names(reads, &["plan", "kk"]);
    let writes = with(NodeOptions::new().writes(&["kk"])).edge(START, "plan");
    names(writes, &["plan", "kk"]);
}

#[test]
fn a_mistake_inside_a_subgraph() {
    let around = |inside: StateGraph| {
        StateGraph::new("g").key("k").subgraph("pay", inside).edge(START, "pay")
    };
    let broken = graph(&["plan"]).edge(START, "plan").edge("plan", "chrage");
    let error = mistake(around(broken.clone()));
    let text = r#"in subgraph "pay": edge "plan" -> "chrage": there is no node "chrage""#;
    assert_eq!(error.to_string(), text);
    names(around(around(broken)), &["pay", "plan", "chrage"]);
    names(around(graph(&["plan", "plan"]).edge(START, "plan")), &["pay", "plan"]);
    let lost = graph(&["plan", "refund"]).edge(START, "plan");
    names(around(lost), &["pay", "refund"]);
}

/// A graph in which `plan` (or START) leads to `a` and `b`, which both say that they write `k`.
fn side_by_side(from: &str, spec: ChannelSpec, [a, b]: [NodeOptions; 2]) -> StateGraph {
    let nothing = |_: State, _: NodeContext| async { Ok(Update::new()) };
    StateGraph::new("g")
        .channel("k", spec)
        .node("plan", nothing)
        .node_with("a", a, nothing)
        .node_with("b", b, nothing)
        .edge(START, "plan")
        .edge(from, "a")
        .edge(from, "b")
}

#[test]
fn two_nodes_side_by_side_that_write_one_value() {
    let writes = || NodeOptions::new().writes(&["k"]);
    for from in ["plan", START] {
        let graph = side_by_side(from, ChannelSpec::LastValue, [writes(), writes()]);
        names(graph.clone(), &[from, "a", "b", "k"]);
        let [key, a, b, after] = ["k", "a", "b", from].map(str::to_owned);
        let suspicion = GraphError::ParallelWriters { key, nodes: [a, b], after };
        assert_eq!(mistake(graph.clone()), suspicion);
        let warned = compiled(graph, Profile::Faithful).expect("a warning only");
        assert_eq!(warned.warnings(), [suspicion]);
    }
    let sound =
        |spec, options| compiled(side_by_side("plan", spec, options), Profile::Safe).is_ok();
    let (one, reduced) = (ChannelSpec::LastValue, ChannelSpec::Reducer(Reducer::append()));
    assert!(!sound(ChannelSpec::Untracked, [writes(), writes()]));
    assert!(sound(reduced, [writes(), writes()]), "a reducer takes several");
    assert!(sound(ChannelSpec::AnyValue, [writes(), writes()]));
    assert!(sound(one.clone(), [writes(), NodeOptions::new()]), "one writer");
    assert!(sound(one.clone(), [writes(), writes().defer()]), "not in one step");
    let in_turn = side_by_side("plan", one, [writes(), NodeOptions::new()])
        .node_with("c", writes(), |_: State, _: NodeContext| async { Ok(Update::new()) })
        .edge("a", "c");
    assert!(compiled(in_turn, Profile::Safe).is_ok(), "one after the other");
}
