//! The shape that most services have: stream the run into the response.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};

use super::request::RunRequest;
use super::{Service, sse};
use crate::doors::{Doors, Event, Labels, Operation, Point, What};
use crate::stream::RunStream;

pub(super) async fn stream(State(service): State<Service>, request: RunRequest) -> Response {
    let doors = service.graph.doors().clone();
    arrive(&doors, &request).await;
    let run = service.graph.stream(request.input, request.config);
    let run_id = run.labels().run.clone().unwrap_or_default();
    let body = Body::from_stream(events(run, doors));
    let headers = [
        (header::CONTENT_TYPE.as_str(), "text/event-stream"),
        (header::CACHE_CONTROL.as_str(), "no-store"),
        ("x-run-id", &run_id),
    ];
    (headers, body).into_response()
}

async fn arrive(doors: &Doors, request: &RunRequest) {
    let thread = request.config.thread.clone();
    let labels =
        Labels { request: request.config.request.clone(), run: None, thread: Some(thread.clone()) };
    let actor = labels.request.clone().unwrap_or_default();
    let path = "runs/stream".into();
    doors.observer.observe(Event { labels, what: What::RequestArrived { path } });
    let point = || Point {
        actor,
        operation: Operation::RequestArrival,
        key: thread,
        id: Arc::from("runs/stream"),
    };
    drop(doors.gate.pass(point).await);
}

/// The run as events. Dropping this drops the run.
fn events(run: RunStream, doors: Doors) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let state = Some((run, doors, 0_u64));
    futures::stream::unfold(state, |state| async {
        let (mut run, doors, delivered) = state?;
        match run.next().await {
            Some(Ok(chunk)) => {
                let labels = run.labels().clone();
                let point = || Point {
                    actor: labels.run.clone().unwrap_or_default(),
                    operation: Operation::StreamDelivery,
                    key: labels.thread.clone().unwrap_or_default(),
                    id: delivered.to_string().into(),
                };
                drop(doors.gate.pass(point).await);
                let mode = chunk.mode.name();
                doors.observer.observe(Event { labels, what: What::ChunkDelivered { mode } });
                Some((Ok(sse::chunk(&chunk)), Some((run, doors, delivered + 1))))
            }
            Some(Err(error)) => Some((Ok(sse::error(&error)), None)),
            None => Some((Ok(sse::end()), None)),
        }
    })
}
