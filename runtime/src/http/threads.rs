//! Looking at threads, and deleting them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::request::ThreadId;
use super::{Problem, Service};
use crate::checkpoint::saver::ListFilter;
use crate::pregel::{RunError, StateSnapshot};
use crate::value;

pub(super) async fn state(
    State(service): State<Service>,
    ThreadId(thread): ThreadId,
) -> Result<Json<Value>, Problem> {
    let snapshot = service.graph.get_state(&thread, None).await.map_err(unavailable)?;
    Ok(Json(to_json(&snapshot)))
}

pub(super) async fn history(
    State(service): State<Service>,
    ThreadId(thread): ThreadId,
) -> Result<Json<Value>, Problem> {
    let history = service.graph.get_state_history(&thread, ListFilter::default()).await;
    Ok(Json(history.map_err(unavailable)?.iter().map(to_json).collect()))
}

/// Everything of the thread goes. A run that is still under way may bring a part of it back, unless
/// late writes are refused.
pub(super) async fn delete(
    State(service): State<Service>,
    ThreadId(thread): ThreadId,
) -> Result<StatusCode, Problem> {
    service.graph.delete_thread(&thread).await.map_err(unavailable)?;
    Ok(StatusCode::NO_CONTENT)
}

fn unavailable(error: RunError) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the checkpoint store failed", error)
}

fn to_json(snapshot: &StateSnapshot) -> Value {
    let metadata = snapshot.metadata.as_ref();
    json!({
        "values": value::to_json(&snapshot.values.to_value()),
        "next": snapshot.next,
        "checkpoint_id": snapshot.checkpoint,
        "parent_checkpoint_id": snapshot.parent,
        "source": metadata.map(|metadata| metadata.source.name()),
        "step": metadata.map(|metadata| metadata.step),
        "created_at": snapshot.created_at,
        "tasks": snapshot.tasks.iter().map(|task| json!({
            "id": task.id,
            "name": task.node,
            "error": task.error,
            "interrupts": task.interrupts.iter().map(|(question, id)| json!({
                "id": id,
                "value": value::to_json(question),
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}
