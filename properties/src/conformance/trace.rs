//! From what was observed to the form in which traces are recorded: ids become labels.

use std::collections::{BTreeMap, BTreeSet};

use durasim_runtime::checkpoint::codec::{read_interrupt, read_send, read_set, unpack};
use durasim_runtime::checkpoint::version::version_number;
use durasim_runtime::checkpoint::{ChannelVersions, CheckpointTuple, reserved};
use durasim_runtime::pregel::{Origin, RunError, StateSnapshot, TaskSnapshot};
use durasim_runtime::value::to_json;
use durasim_runtime::{Chunk, NodeError, StreamMode, Value};
use serde_json::{Map, Value as Json, json};

use super::observed::{Observed, ObservedOperation, ObservedThread};
use super::own_text::drop_own_text;
use super::prepare::Prepared;
use crate::declarative::{python_error_text, python_repr};

pub(super) fn trace(observed: &Observed, prepared: &Prepared) -> Json {
    let mut labels = Labels::new(&observed.threads);
    let raised = prepared.graph.raised();
    let operations: Vec<Json> = observed.operations.iter().map(|o| labels.operation(o)).collect();
    let threads = observed.threads.iter();
    let threads: Map<String, Json> =
        threads.map(|thread| (thread.name.clone(), labels.thread(thread))).collect();
    let mut trace = json!({ "effects": observed.effects, "ops": operations, "threads": threads });
    drop_own_text(&mut trace, &raised);
    trace
}

/// The label of a task that no root checkpoint lists.
const OTHER: &str = "__other__";

/// What one operation left, with ids as they are.
#[cfg(not(madsim))]
pub(super) fn operation_with_ids(observed: &ObservedOperation) -> Json {
    Labels::default().operation(observed)
}

/// What a thread is in the end, with ids as they are and pending writes in the saver's order.
/// `inside` has the nodes of tasks that only graphs inside know.
#[cfg(not(madsim))]
pub(super) fn thread_with_ids(thread: &ObservedThread) -> Json {
    let mut trace = Labels::default().thread(thread);
    let tasks = thread.inside.iter().flat_map(|state| &state.tasks);
    let inside: Map<String, Json> =
        tasks.map(|task| (task.id.to_string(), (*task.node).into())).collect();
    trace["inside"] = inside.into();
    trace
}

/// Labels for ids. Each kind is numbered in the order in which the recorded traces number it. The
/// default has none: ids stay what they are.
#[derive(Default)]
struct Labels {
    has_names: bool,
    checkpoints: BTreeMap<String, String>,
    tasks: BTreeMap<String, String>,
    interrupts: BTreeMap<String, String>,
}

impl Labels {
    fn new(threads: &[ObservedThread]) -> Labels {
        let mut checkpoints = BTreeMap::new();
        let mut tasks = BTreeMap::new();
        let mut per_node: BTreeMap<String, usize> = BTreeMap::new();
        for thread in threads {
            let prefix =
                if threads.len() > 1 { format!("{}.", thread.name) } else { String::new() };
            let mut numbers = [0, 0];
            for tuple in &thread.stored {
                let (kind, letter) =
                    if tuple.key.namespace.is_empty() { (0, 'c') } else { (1, 's') };
                let label = format!("{prefix}{letter}{}", numbers[kind]);
                numbers[kind] += 1;
                checkpoints.insert(tuple.checkpoint.id.to_string(), label);
            }
            for task in thread.inside.iter().flat_map(|state| &state.tasks) {
                tasks.insert(task.id.to_string(), task.node.to_string());
            }
            for state in &thread.history {
                for task in &state.tasks {
                    let known = per_node.entry(task.node.to_string()).or_default();
                    tasks.entry(task.id.to_string()).or_insert_with(|| {
                        *known += 1;
                        format!("{}#{}", task.node, *known - 1)
                    });
                }
            }
        }
        tasks.insert(reserved::NULL_TASK.to_owned(), "__null__".to_owned());
        Labels { has_names: true, checkpoints, tasks, interrupts: BTreeMap::new() }
    }

    /// An id that was never stored has no number.
    fn checkpoint(&self, id: Option<&str>) -> Json {
        match id {
            None => Json::Null,
            Some(id) if !self.has_names => id.into(),
            Some(id) => self.checkpoints.get(id).map_or("unsaved", String::as_str).into(),
        }
    }

    fn task_name(&self, id: &str) -> String {
        match self.tasks.get(id) {
            None if self.has_names => OTHER.to_owned(),
            name => name.map_or(id, String::as_str).to_owned(),
        }
    }

    fn interrupt(&mut self, question: &Value, id: &str) -> Json {
        let next = match self.has_names {
            true => format!("i{}", self.interrupts.len()),
            false => id.to_owned(),
        };
        let label = self.interrupts.entry(id.to_owned()).or_insert(next).clone();
        json!({ "$interrupt": label, "value": self.value(question) })
    }

    fn value(&mut self, value: &Value) -> Json {
        if let Some((question, id)) = read_interrupt(value) {
            return self.interrupt(&question, &id);
        }
        if let Some((node, argument)) = read_send(value) {
            return json!({ "$send": node, "arg": self.value(&argument) });
        }
        if let Some(members) = read_set(value) {
            let mut members: Vec<Json> = members.iter().map(|m| self.value(m)).collect();
            members.sort_by_key(Json::to_string);
            return json!({ "$set": members });
        }
        if let Some(command) = command_text(value) {
            return command.into();
        }
        match value {
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Map(entries) => {
                let key = |key: &Value| key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                Json::Object(entries.iter().map(|(k, v)| (key(k), self.value(v))).collect())
            }
            plain => to_json(plain),
        }
    }

    fn operation(&mut self, observed: &ObservedOperation) -> Json {
        let mut trace = json!({ "op": observed.name, "effects": observed.effects });
        if let Some(events) = &observed.events {
            trace["events"] = events.iter().map(|event| self.event(event)).collect();
        }
        if let Some(error) = &observed.error {
            trace["error"] = error_of(error);
        }
        if let Some(state) = &observed.state {
            trace["state"] = self.state(state);
        }
        if let Some(history) = &observed.history {
            trace["history"] = history.iter().map(|state| self.state(state)).collect();
        }
        if observed.is_closed {
            trace["closed"] = true.into();
        }
        if observed.is_cancelled {
            trace["cancelled"] = true.into();
        }
        trace
    }

    fn event(&mut self, chunk: &Chunk) -> Json {
        let data = &chunk.data;
        let of = |name: &str| field(data, name).unwrap_or(&Value::Nil);
        let mut event = match chunk.mode {
            StreamMode::Tasks => match field(data, "triggers") {
                Some(triggers) => json!({
                    "kind": "start",
                    "name": self.value(of("name")),
                    "input": self.value(of("input")),
                    "triggers": self.value(triggers),
                }),
                None => {
                    let interrupts = of("interrupts").as_array().cloned().unwrap_or_default();
                    let interrupts: Vec<Json> = interrupts
                        .iter()
                        .map(|asked| {
                            let id = field(asked, "id").and_then(Value::as_str).unwrap_or_default();
                            self.interrupt(field(asked, "value").unwrap_or(&Value::Nil), id)
                        })
                        .collect();
                    json!({
                        "kind": "result",
                        "name": self.value(of("name")),
                        "result": self.value(of("result")),
                        "error": self.value(of("error")),
                        "interrupts": interrupts,
                    })
                }
            },
            StreamMode::Checkpoints => {
                let id = |config: &Value| {
                    let id = field(field(config, "configurable")?, "checkpoint_id")?;
                    id.as_str().map(str::to_owned)
                };
                let metadata = of("metadata");
                json!({
                    "checkpoint": self.checkpoint(id(of("config")).as_deref()),
                    "parent": self.checkpoint(id(of("parent_config")).as_deref()),
                    "source": field(metadata, "source").map(|source| self.value(source)),
                    "step": field(metadata, "step").map(|step| self.value(step)),
                    "values": self.value(of("values")),
                    "next": self.value(of("next")),
                })
            }
            _ => json!({ "data": self.value(data) }),
        };
        event["mode"] = chunk.mode.name().into();
        if !chunk.namespace.is_empty() {
            event["ns"] = chunk.namespace.iter().map(|part| node_of(part)).collect();
        }
        event
    }

    fn state(&mut self, state: &StateSnapshot) -> Json {
        let metadata = state.metadata.as_ref();
        json!({
            "checkpoint": self.checkpoint(state.checkpoint.as_deref()),
            "parent": self.checkpoint(state.parent.as_deref()),
            "source": metadata.map(|metadata| metadata.source.name()),
            "step": metadata.map(|metadata| metadata.step),
            "values": self.value(&state.values.to_value()),
            "next": names(&state.next),
            "tasks": state.tasks.iter().map(|task| self.task(task)).collect::<Vec<_>>(),
        })
    }

    fn task(&mut self, task: &TaskSnapshot) -> Json {
        let interrupts = task.interrupts.iter().map(|(question, id)| self.interrupt(question, id));
        let path = match &task.origin {
            Origin::Edge(node) => json!([reserved::PULL, &**node]),
            Origin::Send(place) => json!([reserved::PUSH, place, false]),
        };
        let mut trace = json!({
            "name": &*task.node,
            "path": path,
            "error": task.error,
            "interrupts": interrupts.collect::<Vec<_>>(),
            "result": task.result.as_ref().map(|result| self.value(result)),
        });
        if !self.has_names {
            trace["id"] = (*task.id).into();
        }
        if let Some(inside) = &task.inside {
            trace["state"] = self.state(inside);
        }
        trace
    }

    fn thread(&mut self, thread: &ObservedThread) -> Json {
        let checkpoints: Vec<Json> =
            thread.stored.iter().map(|tuple| self.stored(tuple, thread)).collect();
        let last = match &thread.last {
            Ok(state) => self.state(state),
            Err(error) => json!({ "error": error_of(error) }),
        };
        json!({ "checkpoints": checkpoints, "final": last })
    }

    /// A checkpoint with its rows.
    fn stored(&mut self, tuple: &CheckpointTuple, thread: &ObservedThread) -> Json {
        let checkpoint = &tuple.checkpoint;
        let state = thread.history.iter().find(|s| s.checkpoint.as_ref() == Some(&checkpoint.id));
        let tasks: Vec<Json> =
            state.map_or(vec![], |s| s.tasks.iter().map(|task| self.task(task)).collect());
        let values = checkpoint.channel_values.iter();
        let values: Map<String, Json> =
            values.map(|(name, value)| (name.to_string(), self.value(value))).collect();
        let seen = checkpoint.versions_seen.iter();
        let seen: Map<String, Json> =
            seen.map(|(node, seen)| (node.to_string(), versions(seen))).collect();
        let parents = tuple.metadata.parents.iter();
        let parents: Map<String, Json> = parents
            .map(|(ns, id)| (self.namespace(ns), self.checkpoint(Some(id.as_str()))))
            .collect();
        let mut trace = json!({
            "id": self.checkpoint(Some(&checkpoint.id)),
            "ns": self.namespace(&tuple.key.namespace),
            "parent": self.checkpoint(tuple.parent.as_deref()),
            "source": tuple.metadata.source.name(),
            "step": tuple.metadata.step,
            "metadata_parents": parents,
            "channel_values": values,
            "channel_versions": versions(&checkpoint.channel_versions),
            "versions_seen": seen,
            "updated_channels": checkpoint.updated_channels.as_ref().map(|names| self::names(names)),
            "writes": self.writes(tuple, thread),
        });
        if tuple.key.namespace.is_empty() {
            trace["next"] = state.map(|state| names(&state.next)).into();
            trace["tasks"] = tasks.into();
        }
        trace
    }

    /// A namespace with labels for its task ids.
    fn namespace(&self, namespace: &str) -> String {
        let part = |part: &str| match part.split_once(':') {
            None => part.to_owned(),
            Some((node, task)) => format!("{node}:{}", self.task_name(task)),
        };
        namespace.split('|').map(part).collect::<Vec<_>>().join("|")
    }

    fn writes(&mut self, tuple: &CheckpointTuple, thread: &ObservedThread) -> Vec<Json> {
        let checkpoint = &tuple.checkpoint.id;
        let keys: Option<Vec<_>> = thread.write_keys.as_ref().map(|keys| {
            let here = keys.iter().filter(|key| *key.checkpoint == **checkpoint);
            here.filter(|key| *key.namespace == *tuple.key.namespace).collect()
        });
        let mut rows: Vec<Row> = Vec::new();
        for (place, write) in tuple.writes.iter().enumerate() {
            let key = keys.as_ref().map(|keys| keys[place]);
            debug_assert!(
                key.is_none_or(|key| *key.task == *write.task && *key.channel == *write.channel)
            );
            rows.push(Row {
                task: self.task_name(&write.task),
                index: key.map(|key| key.index),
                // The index of a special channel's row is known; others keep their order behind.
                place: key.map_or_else(
                    || reserved::fixed_index(&write.channel).unwrap_or(place as i64),
                    |key| key.index,
                ),
                channel: write.channel.to_string(),
                value: self.value(&write.value),
            });
        }
        if !self.has_names {
            return rows.into_iter().map(Row::into_json).collect();
        }
        if keys.is_none() {
            // What a saver tells orders the rows of one task; a label may stand for several.
            let mut tasks: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
            for (row, write) in rows.iter().zip(&tuple.writes) {
                tasks.entry(row.task.clone()).or_default().insert(&write.task);
            }
            rows.iter_mut().filter(|row| tasks[&row.task].len() > 1).for_each(|row| row.place = 0);
        }
        ordered(rows).into_iter().map(Row::into_json).collect()
    }
}

/// One pending write.
struct Row {
    task: String,
    index: Option<i64>,
    /// Orders the rows of one task: the index, or the place at which the saver gave the row.
    place: i64,
    channel: String,
    value: Json,
}

impl Row {
    fn into_json(self) -> Json {
        let mut row = json!({ "task": self.task, "channel": self.channel, "value": self.value });
        if let Some(index) = self.index {
            row["idx"] = index.into();
        }
        row
    }
}

/// Rows by task and place. Several edges out of one node come from a Python set there, so which of
/// them has which place means nothing: the recorded traces give the places out by channel name.
fn ordered(mut rows: Vec<Row>) -> Vec<Row> {
    let is_edge =
        |row: &Row| row.channel.starts_with("branch:to:") || row.channel.starts_with("join:");
    let mut places: BTreeMap<String, Vec<(i64, Option<i64>)>> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_edge(row)) {
        places.entry(row.task.clone()).or_default().push((row.place, row.index));
    }
    places.values_mut().for_each(|places| places.sort());
    rows.sort_by(|a, b| a.channel.cmp(&b.channel));
    for row in rows.iter_mut().filter(|row| is_edge(row)) {
        let free = places.get_mut(&row.task).expect("collected above");
        (row.place, row.index) = free.remove(0);
    }
    // Rows of several tasks that no label tells apart come by what they say.
    rows.sort_by_cached_key(|row| {
        (row.task.clone(), row.place, row.channel.clone(), row.value.to_string())
    });
    rows
}

/// The class of a run's error, and the first line of what a node said.
fn error_of(error: &RunError) -> Json {
    let mut trace = json!({ "class": error.class() });
    if let RunError::Node { error: NodeError::Failed { kind, message }, .. } = error {
        let text = python_error_text(kind, message);
        trace["message"] = text.lines().next().unwrap_or_default().into();
    }
    trace
}

fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    value.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

fn node_of(part: &str) -> &str {
    part.split(':').next().unwrap_or_default()
}

/// Only the number: the tail is random.
fn versions(versions: &ChannelVersions) -> Json {
    let number = |version: &str| version_number(version) as u64;
    Json::Object(versions.iter().map(|(k, v)| (k.to_string(), number(v).into())).collect())
}

fn names(names: &[std::sync::Arc<str>]) -> Json {
    names.iter().map(|name| Json::from(&**name)).collect()
}

/// A command is recorded as the text that Python prints for it: what it carries, by name.
fn command_text(value: &Value) -> Option<String> {
    let Value::Ext(2, payload) = value else { return None };
    let Value::Array(parts) = unpack(payload).ok()? else { return None };
    let [module, class, Value::Map(arguments)] = parts.as_slice() else { return None };
    if module.as_str() != Some("langgraph.types") || class.as_str() != Some("Command") {
        return None;
    }
    let is_empty = |value: &Value| {
        let zero = value.as_i64() == Some(0) || value.as_str() == Some("");
        let none = value.is_nil() || value.as_bool() == Some(false);
        let nothing = value.as_array().is_some_and(Vec::is_empty);
        zero || none || nothing || value.as_map().is_some_and(Vec::is_empty)
    };
    let carried = arguments.iter().filter(|(_, value)| !is_empty(value));
    let carried = carried.map(|(name, value)| {
        format!("{}={}", name.as_str().unwrap_or_default(), python_repr(value))
    });
    Some(format!("Command({})", carried.collect::<Vec<_>>().join(", ")))
}
