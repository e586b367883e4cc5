//! Looking at a thread: its head, one of its checkpoints, its history.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::RunError;
use super::apply::{Contribution, apply, from_input};
use super::deltas::{Rebuilt, load, rebuild};
use super::plan::{Place, plan};
use super::task::{Origin, Task};
use crate::channels::Progress;
use crate::checkpoint::saver::{ListFilter, Look, Saver, SaverError};
use crate::checkpoint::{
    CheckpointTuple, Metadata, PendingWrite, ThreadKey, codec, reserved, task_id,
};
use crate::graph::{CompiledGraph, GraphInner, Persistence, State};
use crate::ordered::IndexMap;
use crate::value::{self, Shared, Value};

/// A thread at one checkpoint.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSnapshot {
    pub id: Arc<str>,
    pub node: Arc<str>,
    pub origin: Origin,
    /// The stored repr of the error with which it failed.
    pub error: Option<String>,
    /// Question and interrupt id of each interrupt that it raised.
    pub interrupts: Vec<(Value, String)>,
    /// The state keys that it wrote, when its writes are stored beside the checkpoint: it has
    /// finished. As in LangGraph, the recorded answer to an interrupt counts as a write too.
    pub result: Option<Value>,
    /// The graph inside its node, if it has one and it was asked for.
    pub inside: Option<Box<StateSnapshot>>,
}

impl TaskSnapshot {
    pub fn is_finished(&self) -> bool {
        self.result.is_some()
    }

    /// As the stream's checkpoints show it. `inside` says where the graph inside its node is.
    pub(crate) fn to_value(&self, inside: Value) -> Value {
        let interrupts = self.interrupts.iter().map(|(value, id)| {
            value::map([("value", value.clone()), ("id", Value::from(id.as_str()))])
        });
        let mut entries = vec![("id", Value::from(&*self.id)), ("name", Value::from(&*self.node))];
        if let Some(error) = &self.error {
            entries.push(("error", Value::from(error.as_str())));
        } else {
            let result = self.result.clone().filter(|result| *result != Value::Map(vec![]));
            entries.extend(result.map(|result| ("result", result)));
            entries.push(("interrupts", Value::Array(interrupts.collect())));
        }
        entries.push(("state", inside));
        value::map(entries)
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
        self.look(thread, checkpoint, false).await
    }

    /// As [`CompiledGraph::get_state`], and the graphs inside the nodes that would run next.
    pub async fn get_state_inside(
        &self,
        thread: &str,
        checkpoint: Option<&str>,
    ) -> Result<StateSnapshot, RunError> {
        self.look(thread, checkpoint, true).await
    }

    async fn look(
        &self,
        thread: &str,
        checkpoint: Option<&str>,
        inside: bool,
    ) -> Result<StateSnapshot, RunError> {
        let saver = self.inner.saver.as_ref().ok_or(RunError::NoSaver)?;
        look(&self.inner, saver, ThreadKey::root(thread), checkpoint, inside).await
    }

    /// All checkpoints of a thread, newest first, as they are.
    pub async fn get_state_history(
        &self,
        thread: &str,
        filter: ListFilter,
    ) -> Result<Vec<StateSnapshot>, RunError> {
        let saver = self.inner.saver.as_ref().ok_or(RunError::NoSaver)?;
        history(&self.inner, saver, thread, "", filter).await
    }

    /// Removes everything of a thread, also of the graphs inside. What a run that is under way stores
    /// afterwards is refused, if both [`Options::late_writes`] and the saver say so.
    ///
    /// [`Options::late_writes`]: crate::Options::late_writes
    pub async fn delete_thread(&self, thread: &str) -> Result<(), RunError> {
        let saver = self.inner.saver.as_ref().ok_or(RunError::NoSaver)?;
        Ok(saver.delete_thread(thread).await?)
    }
}

impl CompiledGraph {
    /// As [`CompiledGraph::get_state_history`], of a graph inside: `namespace` is where it keeps its
    /// checkpoints, as their rows and the chunks of a stream name it.
    pub async fn get_state_history_inside(
        &self,
        thread: &str,
        namespace: &str,
        filter: ListFilter,
    ) -> Result<Vec<StateSnapshot>, RunError> {
        let saver = self.inner.saver.as_ref().ok_or(RunError::NoSaver)?;
        let mut graph = &self.inner;
        for node in super::nested::without_tasks(namespace).split('|') {
            graph = graph.subgraph(node).ok_or_else(|| RunError::UnknownNamespace {
                namespace: namespace.to_owned(),
                node: node.to_owned(),
            })?;
        }
        history(graph, saver, thread, namespace, filter).await
    }
}

async fn history(
    graph: &GraphInner,
    saver: &Arc<dyn Saver>,
    thread: &str,
    namespace: &str,
    filter: ListFilter,
) -> Result<Vec<StateSnapshot>, RunError> {
    let mut snapshots = Vec::new();
    for tuple in saver.list(thread, Some(namespace), filter).await? {
        let rebuilt = match rebuild(graph, Some(saver), Some(&tuple)).await {
            // It is history no longer.
            Err(SaverError::Removed { .. }) => continue,
            rebuilt => rebuilt?,
        };
        snapshots.push(snapshot(graph, tuple, &rebuilt, false)?.0);
    }
    Ok(snapshots)
}

fn look<'a>(
    graph: &'a Arc<GraphInner>,
    saver: &'a Arc<dyn Saver>,
    key: ThreadKey,
    checkpoint: Option<&'a str>,
    inside: bool,
) -> BoxFuture<'a, Result<StateSnapshot, RunError>> {
    async move {
        let (Look { tuple, .. }, rebuilt) = load(graph, saver, &key, checkpoint).await?;
        let Some(tuple) = tuple else {
            return Ok(StateSnapshot {
                values: State::default(),
                next: vec![],
                checkpoint: None,
                parent: None,
                metadata: None,
                created_at: None,
                tasks: vec![],
            });
        };
        let (mut snapshot, _) = snapshot(graph, tuple, &rebuilt, checkpoint.is_none())?;
        for task in snapshot.tasks.iter_mut().filter(|_| inside) {
            let Some(graph) = graph.subgraph(&task.node) else { continue };
            let namespace =
                match graph.persistence {
                    Persistence::PerThread => super::nested::without_tasks(
                        &task_id::task_namespace(&key.namespace, &task.node, &task.id),
                    ),
                    Persistence::PerCall | Persistence::Never => {
                        task_id::task_namespace(&key.namespace, &task.node, &task.id)
                    }
                };
            let key = ThreadKey { thread: key.thread.clone(), namespace: namespace.into() };
            task.inside = Some(Box::new(look(graph, saver, key, None, true).await?));
        }
        Ok(snapshot)
    }
    .boxed()
}

/// A checkpoint as people see it, with its tasks.
pub(super) fn snapshot(
    graph: &GraphInner,
    tuple: CheckpointTuple,
    rebuilt: &Rebuilt,
    apply_pending: bool,
) -> Result<(StateSnapshot, IndexMap<Arc<str>, Task>), RunError> {
    let CheckpointTuple { key, mut checkpoint, metadata, parent, writes } = tuple;
    let mut channels = graph.open_channels(&checkpoint, rebuilt);
    let next_version = |highest: Option<&str>| graph.next_version(graph.saver.as_ref(), highest);
    let step = metadata.step + 1;
    let place =
        Place { graph, namespace: &key.namespace, progress: Progress { step, stop: step + 2 } };
    let mut tasks = plan(place, &checkpoint, &channels, None);
    let described = tasks_with_writes(graph, &tasks, &writes);
    let taskless: Vec<_> = writes
        .iter()
        .filter(|write| &*write.task == reserved::NULL_TASK)
        .map(|write| (write.channel.clone(), write.value.clone()))
        .collect();
    if !taskless.is_empty() {
        let input = vec![from_input(&taskless)];
        apply(graph, &mut checkpoint, &mut channels, input, next_version)?;
    }
    if apply_pending {
        for write in &writes {
            if matches!(&*write.channel, reserved::ERROR | reserved::INTERRUPT) {
                continue;
            }
            if let Some(task) = tasks.get_mut(&write.task) {
                task.writes.push((write.channel.clone(), write.value.clone()));
            }
        }
        let finished: Vec<Contribution<'_>> =
            tasks.values().filter(|task| !task.writes.is_empty()).map(Contribution::from).collect();
        if !finished.is_empty() {
            apply(graph, &mut checkpoint, &mut channels, finished, next_version)?;
        }
    }
    let next = tasks.values().filter(|task| task.writes.is_empty());
    let snapshot = StateSnapshot {
        values: graph.read_state(&channels),
        next: next.map(|task| task.node.clone()).collect(),
        checkpoint: Some(checkpoint.id),
        parent,
        metadata: Some(metadata),
        created_at: Some(checkpoint.ts),
        tasks: described,
    };
    Ok((snapshot, tasks))
}

/// Tasks with what is stored of them.
pub(super) fn tasks_with_writes(
    graph: &GraphInner,
    tasks: &IndexMap<Arc<str>, Task>,
    writes: &[PendingWrite],
) -> Vec<TaskSnapshot> {
    let describe = |task: &Task| {
        let mine = || writes.iter().filter(|write| write.task == task.id);
        let of = |channel: &'static str| {
            mine().find(|write| &*write.channel == channel).map(|write| write.value.clone())
        };
        let is_signal = |write: &&PendingWrite| {
            matches!(&*write.channel, reserved::ERROR | reserved::INTERRUPT)
        };
        let plain: Vec<_> = mine()
            .filter(|write| !is_signal(write))
            .map(|write| (&write.channel, &write.value))
            .collect();
        TaskSnapshot {
            id: task.id.clone(),
            node: task.node.clone(),
            origin: task.origin.clone(),
            error: of(reserved::ERROR)
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
            interrupts: of(reserved::INTERRUPT)
                .and_then(|value| value.as_array().cloned())
                .unwrap_or_default()
                .iter()
                .filter_map(codec::read_interrupt)
                .collect(),
            result: (!plain.is_empty()).then(|| result_of(graph, plain.into_iter())),
            inside: None,
        }
    };
    tasks.values().map(describe).collect()
}

/// What writes say about the state. Several writes to one key are listed under `$writes`, as
/// LangGraph shows them.
pub(super) fn result_of<'w>(
    graph: &GraphInner,
    writes: impl Iterator<Item = (&'w Arc<str>, &'w Shared)>,
) -> Value {
    let mut keys: IndexMap<&Arc<str>, Vec<Value>> = IndexMap::default();
    for (key, value) in writes.filter(|(key, _)| graph.is_state_key(key)) {
        let values = keys.entry(key).or_default();
        // As LangGraph shows them, null before another write is no write.
        values.retain(|before| !before.is_nil());
        values.push((**value).clone());
    }
    value::map(keys.into_iter().map(|(key, mut values)| {
        let value = match values.len() {
            1 => values.remove(0),
            _ => value::map([("$writes", Value::Array(values))]),
        };
        (key.to_string(), value)
    }))
}
