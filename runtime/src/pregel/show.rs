//! What the stream shows of a run.

use std::sync::Arc;

use super::core::{RunCore, RunState};
use super::snapshot::{TaskSnapshot, result_of, tasks_with_writes};
use super::task::Task;
use crate::checkpoint::{codec, id, reserved, task_id};
use crate::graph::{State, read};
use crate::stream::StreamMode;
use crate::value::{self, Shared, Value};

impl RunCore {
    /// Queues what the stream shows of a task's writes. `cached` says that they were found, and not
    /// made by this run.
    pub fn show_writes(
        &self,
        state: &RunState,
        id: &str,
        writes: &[(Arc<str>, Shared)],
        cached: bool,
    ) {
        let Some(task) = state.tasks.get(id).filter(|task| !task.is_hidden()) else { return };
        match writes.first().map(|(channel, _)| &**channel) {
            Some(reserved::INTERRUPT) => self.show_interrupts(state, writes),
            Some(reserved::ERROR) | None => {}
            Some(_) if self.outlet.wants(StreamMode::Updates) => {
                let mut data = vec![(task.node.to_string(), self.update_of(writes))];
                if cached {
                    let mark = value::map([("cached", Value::Boolean(true))]);
                    data.push(("__metadata__".to_owned(), mark));
                }
                self.outlet.queue(StreamMode::Updates, value::map(data));
            }
            Some(_) => {}
        }
        if !cached {
            self.show(state, StreamMode::Tasks, "task_result", || self.task_result(task, writes));
        }
    }

    fn show_interrupts(&self, state: &RunState, writes: &[(Arc<str>, Shared)]) {
        let interrupts = writes
            .iter()
            .filter(|(channel, _)| &**channel == reserved::INTERRUPT)
            .flat_map(|(_, value)| value.as_array().cloned().unwrap_or_default());
        let interrupts = Value::Array(interrupts.collect());
        if self.outlet.wants(StreamMode::Updates) {
            let data = value::map([(reserved::INTERRUPT, interrupts.clone())]);
            self.outlet.queue(StreamMode::Updates, data);
        }
        if self.outlet.wants(StreamMode::Values) {
            let mut data = self.values(state).to_value();
            if let Value::Map(entries) = &mut data {
                entries.push((reserved::INTERRUPT.into(), interrupts));
            }
            self.outlet.queue(StreamMode::Values, data);
        }
    }

    /// What a task wrote to the shown keys; one entry for each write if it wrote a key twice.
    fn update_of(&self, writes: &[(Arc<str>, Shared)]) -> Value {
        let shown: Vec<(String, Value)> = writes
            .iter()
            .filter(|(channel, _)| self.shown_keys().contains(channel))
            .map(|(channel, value)| (channel.to_string(), (**value).clone()))
            .collect();
        let is_double = |(at, (key, _)): (usize, &(String, Value))| {
            shown[..at].iter().any(|(earlier, _)| earlier == key)
        };
        if shown.is_empty() {
            Value::Nil
        } else if shown.iter().enumerate().any(is_double) {
            Value::Array(shown.into_iter().map(|write| value::map([write])).collect())
        } else {
            value::map(shown)
        }
    }

    /// The state as the stream shows it.
    fn values(&self, state: &RunState) -> State {
        read(&state.channels, self.shown_keys().iter())
    }

    pub fn show_values(&self, state: &mut RunState) {
        if self.inside.is_some() {
            state.output = Some(self.values(state));
        }
        self.outlet.queue_state(|| self.values(state));
    }

    /// A pause at a static interrupt asks nothing.
    pub fn show_static_pause(&self) {
        let data = || value::map([(reserved::INTERRUPT, Value::Array(vec![]))]);
        if self.outlet.wants(StreamMode::Updates) {
            self.outlet.queue(StreamMode::Updates, data());
        }
    }

    /// The tasks of the step that begins.
    pub fn show_tasks(&self, state: &RunState) {
        for task in state.tasks.values().filter(|task| !task.is_hidden()) {
            self.show(state, StreamMode::Tasks, "task", || {
                let triggers = task.triggers.iter().map(|name| Value::from(&**name)).collect();
                let mut entries = vec![
                    ("id", Value::from(&*task.id)),
                    ("name", Value::from(&*task.node)),
                    ("input", task.input.to_value()),
                    ("triggers", Value::Array(triggers)),
                ];
                let metadata = &self.graph.nodes[&task.node].metadata;
                if !metadata.is_empty() {
                    let metadata = serde_json::Value::Object(metadata.clone());
                    entries.push(("metadata", value::from_json(metadata)));
                }
                value::map(entries)
            });
        }
    }

    fn task_result(&self, task: &Task, writes: &[(Arc<str>, Shared)]) -> Value {
        let of = |wanted: &'static str| {
            let found = writes.iter().filter(move |(channel, _)| &**channel == wanted);
            found.map(|(_, value)| &**value)
        };
        let interrupts = of(reserved::INTERRUPT)
            .flat_map(|list| list.as_array().map_or(&[][..], Vec::as_slice))
            .filter_map(codec::read_interrupt)
            .map(|(value, id)| value::map([("value", value), ("id", Value::from(id))]));
        let interrupts = Value::Array(interrupts.collect());
        value::map([
            ("id", Value::from(&*task.id)),
            ("name", Value::from(&*task.node)),
            ("error", of(reserved::ERROR).next().cloned().unwrap_or(Value::Nil)),
            ("result", result_of(&self.graph, writes.iter().map(|(k, v)| (k, v)))),
            ("interrupts", interrupts),
        ])
    }

    /// The checkpoint that the step is planned from, as a snapshot of the thread would show it.
    pub fn show_checkpoint(&self, state: &RunState) {
        if self.saver.is_none() {
            return;
        }
        self.show(state, StreamMode::Checkpoints, "checkpoint", || {
            let config = |id: Option<&str>| {
                let Some(id) = id else { return Value::Nil };
                let configurable = value::map([
                    ("thread_id", Value::from(&*self.key.thread)),
                    ("checkpoint_ns", Value::from(&*self.key.namespace)),
                    ("checkpoint_id", Value::from(id)),
                ]);
                value::map([("configurable", configurable)])
            };
            let next = state.tasks.values().map(|task| Value::from(&*task.node)).collect();
            let tasks = tasks_with_writes(&self.graph, &state.tasks, &state.pending);
            let tasks = tasks.iter().map(|task| task.to_value(self.place_inside(task)));
            value::map([
                ("config", config(Some(&state.checkpoint.id))),
                ("parent_config", config(state.before_head.as_deref())),
                ("values", self.graph.read_state(&state.channels).to_value()),
                ("metadata", metadata(state)),
                ("next", Value::Array(next)),
                ("tasks", Value::Array(tasks.collect())),
            ])
        });
    }

    /// Where the graph inside a task's node keeps its checkpoints, if it has one.
    fn place_inside(&self, task: &TaskSnapshot) -> Value {
        if self.graph.subgraph(&task.node).is_none() {
            return Value::Nil;
        }
        let namespace = task_id::task_namespace(&self.key.namespace, &task.node, &task.id);
        let configurable = value::map([
            ("thread_id", Value::from(&*self.key.thread)),
            ("checkpoint_ns", Value::from(namespace)),
        ]);
        value::map([("configurable", configurable)])
    }

    /// Queues something for its own mode and, wrapped, for the mode that shows everything.
    fn show(
        &self,
        state: &RunState,
        mode: StreamMode,
        kind: &'static str,
        data: impl FnOnce() -> Value,
    ) {
        let wants_debug = self.outlet.wants(StreamMode::Debug);
        if !self.outlet.wants(mode) && !wants_debug {
            return;
        }
        let data = data();
        self.outlet.queue(mode, data.clone());
        if wants_debug {
            let step = if mode == StreamMode::Checkpoints { state.step - 1 } else { state.step };
            let wrapped = value::map([
                ("step", Value::from(step)),
                ("timestamp", Value::from(id::timestamp(self.doors().clock.now()))),
                ("type", Value::from(kind)),
                ("payload", data),
            ]);
            self.outlet.queue(StreamMode::Debug, wrapped);
        }
    }
}

fn metadata(state: &RunState) -> Value {
    let metadata = &state.metadata;
    let parents = metadata.parents.iter().map(|(ns, id)| (ns.clone(), Value::from(id.as_str())));
    let mut entries = vec![
        ("source".to_owned(), Value::from(metadata.source.name())),
        ("step".to_owned(), Value::from(metadata.step)),
        ("parents".to_owned(), value::map(parents)),
    ];
    let extra = metadata.extra.iter();
    entries.extend(extra.map(|(key, json)| (key.clone(), value::from_json(json.clone()))));
    value::map(entries)
}
