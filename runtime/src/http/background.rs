//! The run belongs to a task of its own; the response only listens. When the client goes away, the
//! run goes on to its end.

use axum::extract::State;
use axum::response::Response;
use futures::StreamExt;

use super::Service;
use super::answer::{arrive, respond};
use super::feed::{Feeder, feed};
use super::request::RunRequest;
use crate::stream::RunStream;

pub(super) async fn stream(State(service): State<Service>, request: RunRequest) -> Response {
    let doors = service.graph.doors().clone();
    arrive(&doors, &request).await;
    let run = service.graph.stream(request.input, request.config);
    let labels = run.labels().clone();
    let (feeder, words) = feed();
    let actor = format!("{}/background", labels.run.as_deref().unwrap_or("-"));
    drop(doors.executor.spawn(&actor, drive(run, feeder)));
    respond(labels, doors, words)
}

/// Runs to the end, whoever listens.
async fn drive(mut run: RunStream, feeder: Feeder) {
    while let Some(item) = run.next().await {
        match item {
            Ok(chunk) => feeder.offer(chunk),
            Err(error) => return feeder.finish(Err(error.into())),
        }
    }
    feeder.finish(Ok(()));
}
