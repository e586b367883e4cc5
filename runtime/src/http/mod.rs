//! Handler shapes: how an HTTP request drives a run. One file per shape, all over the same graph.
//!
//! | method and path | what it does |
//! |---|---|
//! | `POST /threads/{thread}/runs/stream` | runs the graph, streaming server-sent events |
//! | `GET /threads/{thread}/state` | the thread's head |
//! | `GET /threads/{thread}/history` | its checkpoints, newest first |
//! | `DELETE /threads/{thread}` | everything of it goes; 204 |
//!
//! Every refusal is a JSON problem body (RFC 9457) and leaves nothing stored.

mod answer;
mod background;
mod feed;
mod inline;
mod problem;
mod request;
mod serve;
mod shielded;
mod sse;
mod threads;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::{MethodRouter, delete, get, post};

use crate::graph::CompiledGraph;
use crate::profile::{CancelStyle, Durability};
use crate::stream::StreamMode;

pub use problem::Problem;
pub use serve::serve;

/// What requests get that do not say otherwise.
#[derive(Debug, Clone)]
pub struct HandlerConfig {
    pub durability: Durability,
    pub modes: Vec<StreamMode>,
    /// What a client's disconnect does to its run.
    pub cancel: CancelStyle,
}

impl Default for HandlerConfig {
    fn default() -> HandlerConfig {
        HandlerConfig {
            durability: Durability::default(),
            modes: vec![StreamMode::Updates],
            cancel: CancelStyle::Task,
        }
    }
}

/// What every handler shares.
#[derive(Clone)]
pub(crate) struct Service {
    pub graph: CompiledGraph,
    pub config: HandlerConfig,
}

/// How a request drives its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerShape {
    /// The response body is the run: a disconnect ends it, in the configured cancel style.
    Inline,
    /// The run has a task of its own: a disconnect does not touch it.
    Background,
    /// A disconnect lets the pull that is under way give its chunk, then closes the run.
    Shielded,
}

/// The routes of a graph, with one shape for all of its runs. Call it inside the process that will
/// serve them.
pub fn router(shape: HandlerShape, graph: CompiledGraph, config: HandlerConfig) -> Router {
    let keeper = Arc::new(shielded::Keeper::start(graph.doors()));
    let service = Service { graph, config };
    match shape {
        HandlerShape::Inline => routes(post(inline::stream)).with_state(service),
        HandlerShape::Background => routes(post(background::stream)).with_state(service),
        HandlerShape::Shielded => routes(post(shielded::stream)).with_state((service, keeper)),
    }
}

/// All routes, with this one for runs. They share a state, as putting routers together costs more
/// than making one.
fn routes<S>(stream: MethodRouter<S>) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
    Service: FromRef<S>,
{
    Router::new()
        .route("/threads/{thread}", delete(threads::delete))
        .route("/threads/{thread}/state", get(threads::state))
        .route("/threads/{thread}/history", get(threads::history))
        .route("/threads/{thread}/runs/stream", stream)
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
}

impl FromRef<(Service, Arc<shielded::Keeper>)> for Service {
    fn from_ref((service, _): &(Service, Arc<shielded::Keeper>)) -> Service {
        service.clone()
    }
}
