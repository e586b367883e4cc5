//! What the tests of node policies share: paused time, a saver that tells what it is asked, and
//! streams as lines of text.
#![allow(dead_code)] // Each test file uses its own part of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use durasim_runtime::channels::Reducer;
use durasim_runtime::checkpoint::layer::Layer;
use durasim_runtime::checkpoint::memory::MemorySaver;
use durasim_runtime::checkpoint::saver::{Landing, ListFilter, Put, PutWrites, Saver};
use durasim_runtime::checkpoint::{CheckpointTuple, Metadata, reserved};
use durasim_runtime::graph::NodeOptions;
use durasim_runtime::pregel::{Input, RunConfig, RunError};
use durasim_runtime::value;
use durasim_runtime::{
    CompiledGraph, Doors, NodeContext, NodeError, Options, Profile, State, StateGraph, StreamMode,
    Update,
};
use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::json;

/// Runs `test` on one thread, with time that only moves when everybody waits.
pub fn paused<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(test)
}

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// What happened, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, line: impl ToString) {
        self.0.lock().unwrap().push(line.to_string());
    }

    /// Everything so far; the log begins anew.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A memory saver, and what it was asked to store.
#[derive(Clone)]
pub struct Recorder {
    pub inner: MemorySaver,
    /// `put <namespace> <source> <step>`, and for writes their path and rows.
    pub log: Log,
    /// How long each call takes.
    pub delay: Duration,
}

impl Recorder {
    pub fn new(doors: &Doors) -> Recorder {
        Recorder { inner: MemorySaver::new(doors), log: Log::default(), delay: Duration::ZERO }
    }

    /// Sources and steps of a namespace's checkpoints, oldest first.
    pub async fn steps(&self, namespace: Option<&str>) -> Vec<String> {
        let found = self.inner.list("t", namespace, ListFilter::default()).await.expect("a list");
        let line = |tuple: &CheckpointTuple| {
            let Metadata { source, step, .. } = &tuple.metadata;
            format!("{}{} {step}", names(&tuple.key.namespace), source.name())
        };
        found.iter().rev().map(line).collect()
    }
}

/// The names of a namespace's nodes, without their task ids.
fn names(namespace: &str) -> String {
    let parts = namespace.split('|').map(|part| part.split(':').next().unwrap_or_default());
    let names = parts.collect::<Vec<_>>().join("|");
    if names.is_empty() { names } else { names + " " }
}

impl Layer for Recorder {
    fn inner(&self) -> &dyn Saver {
        &self.inner
    }

    fn on_put(&self, put: Put) -> BoxFuture<'static, Landing> {
        let fate = put.fate.clone();
        let (log, delay) = (self.log.clone(), self.delay);
        let Put { key, metadata, .. } = &put;
        let line =
            format!("put {}{} {}", names(&key.namespace), metadata.source.name(), metadata.step);
        let put = self.inner.put(put);
        let write = async move {
            tokio::time::sleep(delay).await;
            put.await?;
            log.add(line);
            Ok(())
        };
        Landing::of_checkpoint(fate, write)
    }

    fn on_writes(&self, put: PutWrites) -> BoxFuture<'static, Landing> {
        let fate = put.fate.clone();
        let (log, delay) = (self.log.clone(), self.delay);
        let rows = put.writes.iter().enumerate().map(|(place, (channel, value))| {
            let index = reserved::fixed_index(channel).unwrap_or(place as i64);
            format!("{index} {channel}={}", value::to_json(value))
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        let line = format!("{}{}: {rows}", names(&put.key.namespace), put.task_path);
        let put = self.inner.put_writes(put);
        let write = async move {
            tokio::time::sleep(delay).await;
            put.await?;
            log.add(line);
            Ok(())
        };
        Landing::of_writes(fate, write)
    }
}

/// A graph with a list `log` that nodes add to, and a number `x`.
pub fn graph(name: &str) -> StateGraph {
    StateGraph::new(name).reduced_key("log", Reducer::append()).key("x")
}

pub fn says(word: &str) -> Update {
    Update::new().set("log", [word])
}

pub fn faithful() -> Options {
    Profile::Faithful.options()
}

/// Compiles under LangGraph's own rules, with a saver that records.
pub fn compiled(graph: StateGraph) -> (CompiledGraph, Recorder) {
    compiled_with(graph, faithful())
}

pub fn compiled_with(graph: StateGraph, options: Options) -> (CompiledGraph, Recorder) {
    compiled_onto(graph, options, &Log::default())
}

/// With the log that the saver adds to.
pub fn compiled_onto(graph: StateGraph, options: Options, log: &Log) -> (CompiledGraph, Recorder) {
    let doors = Doors::production();
    let saver = Recorder { log: log.clone(), ..Recorder::new(&doors) };
    let graph = graph.compile(Some(Arc::new(saver.clone())), &doors, options);
    (graph.expect("a graph"), saver)
}

/// A node that waits and then says its name.
pub trait Waits {
    fn waiting(self, name: &str, log: &Log, wait: Duration, options: NodeOptions) -> Self;
}

impl Waits for StateGraph {
    fn waiting(self, name: &str, log: &Log, wait: Duration, options: NodeOptions) -> StateGraph {
        let (said, log) = (name.to_owned(), log.clone());
        self.node_with(name, options, move |_: State, context: NodeContext| {
            let (said, log) = (said.clone(), log.clone());
            async move {
                log.add(format!("{said} starts"));
                let _cut = Cut { said: &said, log: &log, done: std::cell::Cell::new(false) };
                context.sleep(wait).await;
                _cut.done.set(true);
                log.add(format!("{said} ends"));
                Ok(says(&said))
            }
        })
    }
}

/// Tells that a node was cut off.
struct Cut<'a> {
    said: &'a str,
    log: &'a Log,
    done: std::cell::Cell<bool>,
}

impl Drop for Cut<'_> {
    fn drop(&mut self) {
        if !self.done.get() {
            self.log.add(format!("{} is cut off", self.said));
        }
    }
}

pub fn boom() -> NodeError {
    NodeError::failed("ValueError", "boom")
}

pub fn input() -> Input {
    Input::New(value::from_json(json!({ "x": 0 })))
}

pub fn config(modes: &[StreamMode]) -> RunConfig {
    RunConfig::new("t").modes(modes)
}

pub const UPDATES: &[StreamMode] = &[StreamMode::Updates];
pub const BOTH: &[StreamMode] = &[StreamMode::Updates, StreamMode::Values];

/// A whole run: its chunks as `<namespace> <mode> <JSON>`, then its error as `! <class>: <text>`.
pub async fn run(graph: &CompiledGraph, input: Input, config: RunConfig) -> Vec<String> {
    let mut stream = graph.stream(input, config);
    let mut lines = Vec::new();
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => {
                let namespace = names(&chunk.namespace.join("|"));
                lines.push(format!("{namespace}{} {}", chunk.mode, value::to_json(&chunk.data)));
            }
            Err(error) => lines.push(format!("! {}", told(&error))),
        }
    }
    lines
}

pub fn told(error: &RunError) -> String {
    match error {
        RunError::Node { error: NodeError::Failed { kind, message }, .. } => {
            format!("{kind}: {message}")
        }
        error => format!("{}: {error}", error.class()),
    }
}

/// The list `log` of the thread's head, then the nodes that would run next.
pub async fn state(graph: &CompiledGraph) -> (Vec<String>, Vec<String>) {
    let state = graph.get_state("t", None).await.expect("a state");
    let next = state.next.iter().map(|name| name.to_string()).collect();
    (state.values.get_or("log", vec![]).expect("a list"), next)
}
