//! The shape that most services have: the response body is the run. When the client goes away, the
//! body is dropped, and the run with it, in the configured cancel style.

use axum::extract::State;
use axum::response::Response;
use futures::StreamExt;

use super::Service;
use super::answer::{Fault, Word, arrive, respond};
use super::request::RunRequest;

pub(super) async fn stream(State(service): State<Service>, request: RunRequest) -> Response {
    let doors = service.graph.doors().clone();
    arrive(&doors, &request).await;
    let run = service.graph.stream(request.input, request.config);
    let labels = run.labels().clone();
    respond(labels, doors, run.map(|item| item.map(Word::Chunk).map_err(Fault::from)))
}
