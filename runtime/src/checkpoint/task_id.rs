//! Names that LangGraph derives by hashing: task ids, interrupt ids, and the namespaces and paths
//! around them. The same checkpoint always gives the same ids, which is how a task finds its own
//! pending writes again.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::id::dashed;
use super::reserved;

/// What the ids and paths of error handlers have in them.
const HANDLER: &str = "node_error_handler";

/// Id of the task of `node` that an edge triggers.
///
/// `checkpoint` is the id of the checkpoint the task starts from, `step` that checkpoint's
/// metadata step + 1, `namespace` the graph's own (`""` at the root).
pub fn pull(
    checkpoint: &[u8; 16],
    namespace: &str,
    step: i64,
    node: &str,
    triggers: &[Arc<str>],
) -> Arc<str> {
    let mut triggers: Vec<&str> = triggers.iter().map(|t| &**t).collect();
    triggers.sort_unstable();
    task_id(checkpoint, namespace, step, node, reserved::PULL, &triggers.concat())
}

/// Id of the task that the `index`-th stored Send starts on `node`.
pub fn push(
    checkpoint: &[u8; 16],
    namespace: &str,
    step: i64,
    node: &str,
    index: usize,
) -> Arc<str> {
    task_id(checkpoint, namespace, step, node, reserved::PUSH, &index.to_string())
}

/// Id of the task by which `handler` takes care of the failed task `failed`, whose
/// [`task_namespace`] is `around`.
pub fn handler(
    checkpoint: &[u8; 16],
    around: &str,
    step: i64,
    handler: &str,
    failed: &str,
) -> Arc<str> {
    let rest = format!("{HANDLER}{failed}");
    task_id(checkpoint, around, step, handler, reserved::PUSH, &rest)
}

fn task_id(
    checkpoint: &[u8; 16],
    namespace: &str,
    step: i64,
    node: &str,
    kind: &str,
    rest: &str,
) -> Arc<str> {
    let mut hashed = checkpoint.to_vec();
    for part in [&*child_namespace(namespace, node), &step.to_string(), node, kind, rest] {
        hashed.extend_from_slice(part.as_bytes());
    }
    dashed(xxh3_128(&hashed)).into()
}

/// `<node>` at the root, `<namespace>|<node>` inside a subgraph.
fn child_namespace(namespace: &str, node: &str) -> String {
    if namespace.is_empty() { node.to_owned() } else { format!("{namespace}|{node}") }
}

/// The namespace of one task, in which a subgraph keeps its checkpoints: `<node>:<task id>`, with
/// the graph's own namespace and `|` in front.
pub fn task_namespace(namespace: &str, node: &str, task: &str) -> String {
    format!("{}:{task}", child_namespace(namespace, node))
}

/// Id of every interrupt of the task with this [`task_namespace`]: two interrupts of one task
/// have the same id.
pub fn interrupt_id(task_namespace: &str) -> String {
    format!("{:032x}", xxh3_128(task_namespace.as_bytes()))
}

/// The path of a task that an edge triggers; tasks are applied in the order of their paths.
pub fn pull_path(node: &str) -> String {
    format!("~{}, {node}", reserved::PULL)
}

/// The path of a task that a Send starts. The last part is Python's `False`, padded as a number.
pub fn push_path(index: usize) -> String {
    format!("~{}, {index:010}, {:010}", reserved::PUSH, 0)
}

/// The path of the task that takes care of a failed task with this path.
pub fn handler_path(failed: &str) -> String {
    format!("{failed}, {HANDLER}, {:010}", 0)
}
