//! What every shape does alike: let a request arrive, and turn what the run gives into the
//! response's events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};

use super::request::RunRequest;
use super::sse;
use crate::doors::{Doors, Event, Labels, Operation, Point, What};
use crate::pregel::RunError;
use crate::stream::Chunk;

/// One thing that a client is told before the end.
pub(super) enum Word {
    Chunk(Chunk),
    /// The client was too slow: this many chunks are left out here.
    Gap(u64),
}

/// How a run that did not finish is told to its client.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub class: String,
    pub message: String,
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Fault {
        Fault { class: error.class().to_owned(), message: error.to_string() }
    }
}

/// Notes the request and passes the gate's point for arrivals.
pub(super) async fn arrive(doors: &Doors, request: &RunRequest) {
    let thread = request.config.thread.clone();
    let labels =
        Labels { request: request.config.request.clone(), run: None, thread: Some(thread.clone()) };
    let actor = labels.request.clone().unwrap_or_default();
    let path: Arc<str> = "runs/stream".into();
    doors.observer.observe(Event { labels, what: What::RequestArrived { path: path.clone() } });
    let point = || Point { actor, operation: Operation::RequestArrival, key: thread, id: path };
    drop(doors.gate.pass(point).await);
}

/// Streams `words` as server-sent events; the end of `words` is the end of a finished run.
/// Dropping the response's body drops `words`.
pub(super) fn respond(
    labels: Labels,
    doors: Doors,
    words: impl Stream<Item = Result<Word, Fault>> + Send + 'static,
) -> Response {
    let run_id = labels.run.clone().unwrap_or_default();
    let body = Body::from_stream(events(labels, doors, Box::pin(words)));
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-store"),
        ("x-run-id", &run_id),
    ];
    (headers, body).into_response()
}

fn events(
    labels: Labels,
    doors: Doors,
    words: impl Stream<Item = Result<Word, Fault>> + Send + Unpin + 'static,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let state = Some((words, labels, doors, 0_u64));
    futures::stream::unfold(state, |state| async {
        let (mut words, labels, doors, delivered) = state?;
        let bytes = match words.next().await {
            None => return Some((Ok(sse::end()), None)),
            Some(Err(fault)) => return Some((Ok(sse::error(&fault)), None)),
            Some(Ok(Word::Gap(left_out))) => sse::gap(left_out),
            Some(Ok(Word::Chunk(chunk))) => {
                let point = || Point {
                    actor: labels.run.clone().unwrap_or_default(),
                    operation: Operation::StreamDelivery,
                    key: labels.thread.clone().unwrap_or_default(),
                    id: delivered.to_string().into(),
                };
                drop(doors.gate.pass(point).await);
                let what = What::ChunkDelivered { mode: chunk.mode.name() };
                doors.observer.observe(Event { labels: labels.clone(), what });
                sse::chunk(&chunk)
            }
        };
        Some((Ok(bytes), Some((words, labels, doors, delivered + 1))))
    })
}
