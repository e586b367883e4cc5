//! Handler shapes: how an HTTP request drives a run. One file per shape, all over the same graph.
//!
//! | method and path | what it does |
//! |---|---|
//! | `POST /threads/{thread}/runs/stream` | runs the graph, streaming server-sent events |
//! | `GET /threads/{thread}/state` | the thread's head |
//! | `GET /threads/{thread}/history` | its checkpoints, newest first |
//!
//! Every refusal is a JSON problem body (RFC 9457) and leaves nothing stored.

mod inline;
mod problem;
mod request;
mod serve;
mod sse;
mod threads;

use axum::Router;
use axum::routing::{get, post};

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

/// The `inline` shape: the response body is the run. When the client goes away, the body is
/// dropped, and the run with it, in the configured cancel style.
pub fn inline(graph: CompiledGraph, config: HandlerConfig) -> Router {
    Router::new()
        .route("/threads/{thread}/runs/stream", post(inline::stream))
        .route("/threads/{thread}/state", get(threads::state))
        .route("/threads/{thread}/history", get(threads::history))
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::method_not_allowed)
        .with_state(Service { graph, config })
}
