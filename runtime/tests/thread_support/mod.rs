//! What the tests of whole threads share: a graph beside its saver, and what it shows and stores as
//! lines of text.
#![allow(dead_code)] // Each test file uses its own part of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use durasim_runtime::channels::Reducer;
use durasim_runtime::checkpoint::codec::{read_interrupt, read_overwrite};
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{ListFilter, Saver};
use durasim_runtime::graph::Persistence;
use durasim_runtime::pregel::{Input, RunConfig, RunError, StateSnapshot};
use durasim_runtime::value::{self, Value};
use durasim_runtime::{
    Chunk, CompiledGraph, Doors, END, NodeContext, NodeError, Options, Profile, START, State,
    StateGraph, Update,
};
use futures::StreamExt;
use serde_json::{Value as Json, json};

use crate::policies_support::Log;

/// LangGraph's own rules.
pub fn faithful() -> Options {
    Profile::Faithful.options()
}

/// A graph and the saver that keeps its threads. All tests use the thread `t`.
pub struct Bench {
    pub graph: CompiledGraph,
    pub saver: Arc<dyn Saver>,
}

impl Bench {
    pub fn new(graph: StateGraph) -> Bench {
        Bench::with(graph, faithful())
    }

    pub fn with(graph: StateGraph, options: Options) -> Bench {
        Bench::on(Arc::new(MemorySaver::new(&Doors::production())), graph, options)
    }

    pub fn on(saver: Arc<dyn Saver>, graph: StateGraph, options: Options) -> Bench {
        let doors = Doors::production();
        let graph = graph.compile(Some(saver.clone()), &doors, options).expect("a graph");
        Bench { graph, saver }
    }

    /// A whole run, as its chunks and its error.
    pub async fn run(&self, input: Input, config: RunConfig) -> Vec<String> {
        let mut stream = self.graph.stream(input, config);
        let mut lines = Vec::new();
        while let Some(chunk) = stream.next().await {
            lines.push(match chunk {
                Ok(chunk) => line(&chunk),
                Err(error) => format!("! {}", told(&error)),
            });
        }
        lines
    }

    /// The stored checkpoints, oldest first, one namespace after the other: where, source, step and channel values by name.
    pub async fn rows(&self) -> Vec<String> {
        let mut found = self.saver.list("t", None, ListFilter::default()).await.expect("a list");
        found.reverse();
        let mut namespaces: Vec<Arc<str>> = vec![];
        for tuple in &found {
            if !namespaces.contains(&tuple.key.namespace) {
                namespaces.push(tuple.key.namespace.clone());
            }
        }
        found.sort_by_key(|tuple| namespaces.iter().position(|ns| *ns == tuple.key.namespace));
        let row = |tuple: &durasim_runtime::checkpoint::CheckpointTuple| {
            let values = tuple.checkpoint.channel_values.iter();
            let values: BTreeMap<&str, Json> = values.map(|(k, v)| (&**k, plain(v))).collect();
            let (source, step) = (tuple.metadata.source.name(), tuple.metadata.step);
            let values = json!(values);
            format!("{}{source} {step} {values}", place_of(&tuple.key.namespace))
        };
        found.iter().map(row).collect()
    }

    /// Ids of the root's checkpoints, oldest first.
    pub async fn ids(&self) -> Vec<Arc<str>> {
        let found = self.saver.list("t", Some(""), ListFilter::default()).await.expect("a list");
        found.iter().rev().map(|tuple| tuple.checkpoint.id.clone()).collect()
    }

    /// The id of the root's checkpoint with this number, counted from the oldest.
    pub async fn id(&self, number: usize) -> Arc<str> {
        self.ids().await[number].clone()
    }

    /// The root's history, newest first: `c<number> <- <parent> <source> <step> <values> <next>`.
    pub async fn history(&self, filter: ListFilter) -> Vec<String> {
        let ids = self.ids().await;
        let number = |id: &Option<Arc<str>>| match id {
            None => "-".to_owned(),
            Some(id) => match ids.iter().position(|other| other == id) {
                Some(number) => format!("c{number}"),
                None => "?".to_owned(),
            },
        };
        let found = self.graph.get_state_history("t", filter).await.expect("a history");
        let line = |state: &StateSnapshot| {
            let (here, parent) = (number(&state.checkpoint), number(&state.parent));
            format!("{here} <- {parent} {}", looks(state))
        };
        found.iter().map(line).collect()
    }
}

/// `<source> <step> <values> <next>` of a state.
pub fn looks(state: &StateSnapshot) -> String {
    let metadata = state.metadata.as_ref().expect("a checkpoint");
    let values = plain(&state.values.to_value());
    format!("{} {} {values} {:?}", metadata.source.name(), metadata.step, state.next)
}

/// A chunk as `<where><mode> <JSON>`.
pub fn line(chunk: &Chunk) -> String {
    let place = names(&chunk.namespace.join("|"));
    format!("{place}{} {}", chunk.mode, plain(&chunk.data))
}

/// The names of a namespace's nodes, without their task ids.
pub fn names(namespace: &str) -> String {
    let parts = namespace.split('|').map(|part| part.split(':').next().unwrap_or_default());
    let names = parts.collect::<Vec<_>>().join("|");
    if names.is_empty() { names } else { names + " " }
}

/// As [`names`], with a `#` where there is a task id.
fn place_of(namespace: &str) -> String {
    match namespace.contains(':') {
        true => format!("#{}", names(namespace)),
        false => names(namespace),
    }
}

/// A value as JSON; questions and overwrites as what they hold.
pub fn plain(value: &Value) -> Json {
    match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Map(entries) => {
            let name = |key: &Value| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            Json::Object(entries.iter().map(|(key, value)| (name(key), plain(value))).collect())
        }
        Value::Ext(..) => match (read_interrupt(value), read_overwrite(value)) {
            (Some((question, _)), _) => json!({ "value": plain(&question) }),
            (_, Some(whole)) => json!({ "value": plain(&whole) }),
            _ => value::to_json(value),
        },
        other => value::to_json(other),
    }
}

pub fn told(error: &RunError) -> String {
    match error {
        RunError::Node { error: NodeError::Failed { kind, message }, .. } => {
            format!("{kind}: {message}")
        }
        error => format!("{}: {error}", error.class()),
    }
}

/// A new turn's input.
pub fn input(entries: Json) -> Input {
    Input::New(value::from_json(entries))
}

/// `a` writes how many words were there, `b` asks or does not. Both note that they ran.
pub fn inner(persistence: Persistence, asks: bool, log: &Log) -> StateGraph {
    let (of_a, of_b) = (log.clone(), log.clone());
    StateGraph::new("inner")
        .key("x")
        .reduced_key("seen", Reducer::append())
        .node("a", move |state: State, _| {
            of_a.add("a");
            async move {
                let before = state.get::<Vec<String>>("seen")?.len();
                Ok::<_, NodeError>(Update::new().set("x", before).set("seen", ["a"]))
            }
        })
        .node("b", move |_: State, context: NodeContext| {
            let log = of_b.clone();
            async move {
                let word = match asks {
                    true => context.interrupt("q")?.as_str().unwrap_or_default().to_owned(),
                    false => "b".to_owned(),
                };
                log.add(format!("b {word}"));
                Ok::<_, NodeError>(Update::new().set("seen", [word]))
            }
        })
        .sequence(&[START, "a", "b", END])
        .persistence(persistence)
}
