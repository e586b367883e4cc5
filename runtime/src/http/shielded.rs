//! Each pull of the stream is protected. When the client goes away in the middle of one, that pull
//! still gives its chunk, to nobody, and then the run is closed in an orderly way: one super-step
//! more than `inline`, and never less than what was stored.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::State;
use axum::response::Response;
use futures::channel::mpsc;
use futures::{Stream, StreamExt};

use super::Service;
use super::answer::{Fault, Word, arrive, respond};
use super::request::RunRequest;
use crate::doors::Doors;
use crate::stream::RunStream;

/// Ends runs whose client is gone. A destructor can neither await nor spawn, so it hands its run to
/// this task, which has been running since the router was made.
pub(super) struct Keeper(mpsc::UnboundedSender<RunStream>);

impl Keeper {
    pub fn start(doors: &Doors) -> Keeper {
        let (sender, mut left) = mpsc::unbounded::<RunStream>();
        let executor = doors.executor.clone();
        drop(doors.executor.spawn("shield", async move {
            while let Some(mut run) = left.next().await {
                let actor = format!("{}/shield", run.labels().run.as_deref().unwrap_or("-"));
                drop(executor.spawn(&actor, async move {
                    if run.is_pulled() {
                        let _ = run.next().await;
                    }
                    let _ = run.close().await;
                }));
            }
        }));
        Keeper(sender)
    }
}

pub(super) async fn stream(
    State((service, keeper)): State<(Service, Arc<Keeper>)>,
    request: RunRequest,
) -> Response {
    let doors = service.graph.doors().clone();
    arrive(&doors, &request).await;
    let run = service.graph.stream(request.input, request.config);
    let labels = run.labels().clone();
    respond(labels, doors, Shielded { run: Some(run), keeper })
}

/// A run that is handed over when this is dropped.
struct Shielded {
    run: Option<RunStream>,
    keeper: Arc<Keeper>,
}

impl Stream for Shielded {
    type Item = Result<Word, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(run) = &mut self.run else { return Poll::Ready(None) };
        let next = run.poll_next_unpin(cx);
        if matches!(next, Poll::Ready(None | Some(Err(_)))) {
            self.run = None;
        }
        next.map(|item| item.map(|item| item.map(Word::Chunk).map_err(Fault::from)))
    }
}

impl Drop for Shielded {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            let _ = self.keeper.0.unbounded_send(run);
        }
    }
}
