//! Looking at a thread: its head, one of its checkpoints, its history.

use std::sync::Arc;

use indexmap::IndexMap;

use super::RunError;
use super::apply::{Contribution, apply};
use super::plan::plan;
use crate::checkpoint::saver::ListFilter;
use crate::checkpoint::{CheckpointTuple, Metadata, PendingWrite, ThreadKey, codec, reserved};
use crate::graph::{CompiledGraph, GraphInner, State};
use crate::value::{self, Value};

/// A thread at one checkpoint.
#[derive(Debug, Clone)]
pub struct StateSnapshot {
    pub values: State,
    /// Nodes that would run next, in task order.
    pub next: Vec<Arc<str>>,
    pub checkpoint: Option<Arc<str>>,
    pub parent: Option<Arc<str>>,
    /// `None` when the thread has no checkpoint.
    pub metadata: Option<Metadata>,
    pub created_at: Option<String>,
    pub tasks: Vec<TaskSnapshot>,
}

/// A task that starts from a checkpoint, and what is stored of it.
#[derive(Debug, Clone)]
pub struct TaskSnapshot {
    pub id: Arc<str>,
    pub node: Arc<str>,
    /// The stored repr of the error with which it failed.
    pub error: Option<String>,
    /// Question and interrupt id of each interrupt that it raised.
    pub interrupts: Vec<(Value, String)>,
    /// The state keys that it wrote, when its writes are stored beside the checkpoint: it has
    /// finished. As in LangGraph, the recorded answer to an interrupt counts as a write too.
    pub result: Option<Value>,
}

impl TaskSnapshot {
    pub fn is_finished(&self) -> bool {
        self.result.is_some()
    }
}

impl CompiledGraph {
    /// The thread's head, with the pending writes of finished tasks applied to values and `next`;
    /// or one checkpoint as it is. An unknown thread is an empty snapshot.
    pub async fn get_state(
        &self,
        thread: &str,
        checkpoint: Option<&str>,
    ) -> Result<StateSnapshot, RunError> {
        let saver = self.inner.saver.as_ref().ok_or(RunError::NoSaver)?;
        match saver.get_tuple(&ThreadKey::root(thread), checkpoint).await? {
            Some(tuple) => self.snapshot(tuple, checkpoint.is_none()),
            None => Ok(StateSnapshot {
                values: State::default(),
                next: vec![],
                checkpoint: None,
                parent: None,
                metadata: None,
                created_at: None,
                tasks: vec![],
            }),
        }
    }

    /// All checkpoints of a thread, newest first, as they are.
    pub async fn get_state_history(
        &self,
        thread: &str,
        filter: ListFilter,
    ) -> Result<Vec<StateSnapshot>, RunError> {
        let saver = self.inner.saver.as_ref().ok_or(RunError::NoSaver)?;
        let tuples = saver.list(thread, Some(""), filter).await?;
        tuples.into_iter().map(|tuple| self.snapshot(tuple, false)).collect()
    }

    fn snapshot(
        &self,
        tuple: CheckpointTuple,
        apply_pending: bool,
    ) -> Result<StateSnapshot, RunError> {
        let graph = &self.inner;
        let CheckpointTuple { mut checkpoint, metadata, parent, writes, .. } = tuple;
        let mut channels = graph.open_channels(&checkpoint);
        let mut tasks = plan(graph, &checkpoint, &channels, metadata.step + 1, None);
        let of = |task: &Arc<str>, channel: &str| {
            let found = writes.iter().find(|w| w.task == *task && &*w.channel == channel);
            found.map(|write| write.value.clone())
        };
        let described: Vec<TaskSnapshot> = tasks
            .values()
            .map(|task| TaskSnapshot {
                id: task.id.clone(),
                node: task.node.clone(),
                error: of(&task.id, reserved::ERROR)
                    .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
                interrupts: of(&task.id, reserved::INTERRUPT)
                    .and_then(|value| value.as_array().cloned())
                    .unwrap_or_default()
                    .iter()
                    .filter_map(codec::read_interrupt)
                    .collect(),
                result: result_of(graph, &task.id, &writes),
            })
            .collect();
        if apply_pending {
            for write in &writes {
                if matches!(&*write.channel, reserved::ERROR | reserved::INTERRUPT) {
                    continue;
                }
                if let Some(task) = tasks.get_mut(&write.task) {
                    task.writes.push((write.channel.clone(), write.value.clone()));
                }
            }
            let finished: Vec<Contribution<'_>> = tasks
                .values()
                .filter(|task| !task.writes.is_empty())
                .map(|task| Contribution {
                    node: &task.node,
                    path: &task.path,
                    triggers: &task.triggers,
                    writes: &task.writes,
                })
                .collect();
            if !finished.is_empty() {
                apply(graph, &mut checkpoint, &mut channels, finished, &graph.doors)?;
            }
        }
        let next = tasks.values().filter(|task| task.writes.is_empty());
        Ok(StateSnapshot {
            values: graph.read_state(&channels),
            next: next.map(|task| task.node.clone()).collect(),
            checkpoint: Some(checkpoint.id),
            parent,
            metadata: Some(metadata),
            created_at: Some(checkpoint.ts),
            tasks: described,
        })
    }
}

/// What a task wrote to the state; `None` when nothing of it is stored but a failure or a question.
/// Several writes to one key are listed under `$writes`, as LangGraph shows them.
fn result_of(graph: &GraphInner, task: &Arc<str>, writes: &[PendingWrite]) -> Option<Value> {
    let mut mine = writes
        .iter()
        .filter(|write| {
            write.task == *task && !matches!(&*write.channel, reserved::ERROR | reserved::INTERRUPT)
        })
        .peekable();
    mine.peek()?;
    let mut keys: IndexMap<&Arc<str>, Vec<Value>> = IndexMap::new();
    for write in mine.filter(|write| graph.is_state_key(&write.channel)) {
        keys.entry(&write.channel).or_default().push((*write.value).clone());
    }
    Some(value::map(keys.into_iter().map(|(key, mut values)| {
        let value = match values.len() {
            1 => values.remove(0),
            _ => value::map([("$writes", Value::Array(values))]),
        };
        (key.to_string(), value)
    })))
}
