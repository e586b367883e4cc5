//! A run says how often each of its nodes was entered.
#![cfg(not(madsim))]

mod policies_support;

use std::sync::Arc;

use durasim_runtime::graph::{NodeOptions, RetryOn, RetryPolicy, Send};
use durasim_runtime::value::{self, Value};
use durasim_runtime::{NodeContext, RunStream, START, State};
use futures::StreamExt;
use policies_support::{UPDATES, boom, compiled, config, graph, input, paused, says};

fn counts(stream: &mut RunStream) -> Vec<(String, u64)> {
    let entered = stream.entered();
    entered.into_iter().map(|(name, count): (Arc<str>, u64)| (name.to_string(), count)).collect()
}

#[test]
fn every_attempt_of_every_task_counts() {
    paused(async {
        let inner = graph("inner").node("n", |_, _| async { Ok(says("n")) }).edge(START, "n");
        let policy = RetryPolicy {
            max_attempts: 3,
            retry_on: RetryOn::Classes(vec!["ValueError".to_owned()]),
            ..RetryPolicy::default()
        };
        let options = NodeOptions::new().retry(policy).on_error(|_, _, _| async { Ok(()) });
        let graph = graph("g")
            .node("r", |_, _| async { Ok(()) })
            .branch("r", &["twice", "sub", "fails"], |_: &State| {
                let none = || Value::Map(vec![]);
                let of = |node| Send::new(node, none());
                Ok(vec![of("twice"), of("twice"), of("sub"), of("fails")])
            })
            .node("twice", |_, _| async { Ok(()) })
            .subgraph("sub", inner)
            .node_with("fails", options, |_: State, _: NodeContext| async { Err::<(), _>(boom()) })
            .edge(START, "r");
        let (graph, _) = compiled(graph);
        let mut stream = graph.stream(input(), config(UPDATES));
        assert_eq!(counts(&mut stream), []);
        let first = stream.next().await.unwrap().unwrap();
        assert_eq!(value::to_json(&first.data).to_string(), r#"{"r":null}"#);
        assert_eq!(counts(&mut stream), [("r".to_owned(), 1)]);
        while stream.next().await.is_some() {}
        let all = [("__error_handler__fails", 1), ("fails", 3), ("r", 1), ("sub", 1)];
        let all = all.into_iter().chain([("sub|n", 1), ("twice", 2)]);
        let all: Vec<_> = all.map(|(name, count)| (name.to_owned(), count)).collect();
        assert_eq!(counts(&mut stream), all);
    });
}
