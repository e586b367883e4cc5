//! In which order a run calls its saver, beside what its nodes and its stream do, at each durability.
//! What is expected was recorded from langgraph 1.2.9 (`vectors/saver_call_order.json`).
#![cfg(not(madsim))]

mod checkpoint_support;
mod policies_support;
mod thread_support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use checkpoint_support::vectors;
use durasim_runtime::channels::Reducer;
use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{Landing, Put, PutWrites, Saver};
use durasim_runtime::pregel::{Input, RunConfig};
use durasim_runtime::{
    Doors, Durability, END, NodeContext, NodeError, START, State, StateGraph, StreamMode, Update,
    value,
};
use futures::StreamExt;
use futures::future::BoxFuture;
use policies_support::{ms, paused};
use thread_support::faithful;

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, line: String) {
    log.lock().unwrap().push(line);
}

/// Notes every write at its beginning and its end. As in the recorded stack, storing a checkpoint
/// takes longer than storing a task's writes, both are done beside each other, and a node takes longer
/// than either.
struct Noting {
    inner: MemorySaver,
    log: Log,
}

impl Layer for Noting {
    fn inner(&self) -> &dyn Saver {
        &self.inner
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        let (inner, log) = (self.inner.clone(), self.log.clone());
        let landing = async move {
            let (source, step) = (put.metadata.source.name(), put.metadata.step);
            let parent = if put.parent.is_some() { "yes" } else { "no" };
            let mut new: Vec<&str> = put.new_versions.keys().map(|name| &**name).collect();
            new.sort_unstable();
            let new = names(&new);
            note(
                &log,
                format!(
                    "aput start source={source} step={step} parent={parent} new_versions={new}"
                ),
            );
            tokio::time::sleep(ms(2)).await;
            inner.put(put).await?;
            note(&log, format!("aput done step={step}"));
            Ok(())
        };
        Box::pin(async { Landing::new(landing) })
    }

    fn on_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        let (inner, log) = (self.inner.clone(), self.log.clone());
        let landing = async move {
            let channels: Vec<&str> = put.writes.iter().map(|(name, _)| &**name).collect();
            let channels = names(&channels);
            note(&log, format!("aput_writes start channels={channels}"));
            tokio::time::sleep(ms(1)).await;
            inner.put_writes(put).await?;
            note(&log, format!("aput_writes done channels={channels}"));
            Ok(())
        };
        Box::pin(async { Landing::new(landing) })
    }
}

/// As Python prints a list of text.
fn names(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("[{}]", quoted.join(", "))
}

/// A node that takes its time and notes it.
fn step(graph: StateGraph, name: &'static str, log: &Log) -> StateGraph {
    let log = log.clone();
    graph.node(name, move |_: State, context: NodeContext| {
        let log = log.clone();
        async move {
            note(&log, format!("node {name} start"));
            context.sleep(ms(10)).await;
            note(&log, format!("node {name} end"));
            Ok::<_, NodeError>(Update::new().set("steps", [name]))
        }
    })
}

fn played(durability: Durability) -> Vec<String> {
    let log = Log::default();
    paused(async {
        let inner = MemorySaver::new(&Doors::production());
        let saver = Arc::new(Noting { inner, log: log.clone() });
        let graph = StateGraph::new("paying").reduced_key("steps", Reducer::append());
        let graph = step(step(graph, "plan", &log), "charge", &log);
        let graph = graph.edge(START, "plan").edge("plan", "charge").edge("charge", END);
        let graph = graph.compile(Some(saver), &Doors::production(), faithful()).unwrap();
        let input = Input::New(value::map([("steps", value::Value::Array(vec![]))]));
        let config = RunConfig::new("t").durability(durability).modes(&[StreamMode::Updates]);
        let mut stream = graph.stream(input, config);
        while let Some(chunk) = stream.next().await {
            let data = chunk.unwrap().data;
            let node = data.as_map().unwrap()[0].0.as_str().unwrap().to_owned();
            note(&log, format!("stream event ['{node}']"));
        }
    });
    std::mem::take(&mut log.lock().unwrap())
}

#[test]
fn calls_come_in_langgraphs_order() {
    let text = std::fs::read_to_string(vectors("saver_call_order.json")).unwrap();
    let recorded: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).unwrap();
    for (name, durability) in
        [("sync", Durability::Sync), ("async", Durability::Async), ("exit", Durability::Exit)]
    {
        // Reading comes first by itself; the saver that was recorded was not told paths.
        let expected: Vec<String> = recorded[name]
            .iter()
            .filter(|line| *line != "aget_tuple")
            .map(|line| line.replace(" path=''", ""))
            .collect();
        assert_eq!(played(durability), expected, "{name}");
    }
}
