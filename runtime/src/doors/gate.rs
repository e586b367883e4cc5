//! Labelled points at which a visible operation may be held.
//!
//! Every operation that somebody else can see passes a point first: a saver read or write, an
//! effect, a request's arrival, the delivery of a chunk, the start of a node. In production the
//! gate is open and the check is one branch. A simulated world holds callers here to choose,
//! record and enumerate the order of events.

use std::sync::Arc;

use futures::future::BoxFuture;

/// The kinds of labelled points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    SaverRead,
    SaverWrite,
    Effect,
    RequestArrival,
    StreamDelivery,
    NodeStart,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Operation::SaverRead => "saver.read",
            Operation::SaverWrite => "saver.write",
            Operation::Effect => "effect",
            Operation::RequestArrival => "request.arrival",
            Operation::StreamDelivery => "stream.delivery",
            Operation::NodeStart => "node.start",
        }
    }
}

/// One arrival at a labelled point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Who arrives: a request or run id, stable from execution to execution.
    pub actor: Arc<str>,
    pub operation: Operation,
    /// What it is about: a thread, a node.
    pub key: Arc<str>,
    /// Which one exactly: a checkpoint or task id; may be empty.
    pub id: Arc<str>,
}

/// Decides how long a caller waits at a point.
pub trait Controller: Send + Sync {
    fn arrive(&self, point: Point) -> BoxFuture<'static, Pass>;
}

/// Permission to go on. The point is released when this is dropped.
pub struct Pass(#[allow(dead_code)] Option<Box<dyn Send + Sync>>);

impl Pass {
    pub fn free() -> Pass {
        Pass(None)
    }

    /// A pass that tells its controller by being dropped.
    pub fn held(release: impl Send + Sync + 'static) -> Pass {
        Pass(Some(Box::new(release)))
    }
}

/// The gate that every visible operation passes.
#[derive(Clone, Default)]
pub enum Gate {
    /// Nobody is held.
    #[default]
    Open,
    Controlled(Arc<dyn Controller>),
}

impl Gate {
    /// Waits until the caller may go on. Hold the pass for as long as the operation lasts.
    #[inline]
    pub async fn pass(&self, point: impl FnOnce() -> Point) -> Pass {
        match self {
            Gate::Open => Pass::free(),
            Gate::Controlled(controller) => controller.arrive(point()).await,
        }
    }
}
