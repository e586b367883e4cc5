//! What a node's author decides about it besides its code.

use std::future::Future;

use super::node::{NodeFn, node_fn};
use super::{IntoCommand, NodeContext, NodeError, NodeFailure, RetryPolicy, State, TimeoutPolicy};
use crate::cache::CachePolicy;

/// How a node takes part in the graph.
#[derive(Clone, Default)]
pub struct NodeOptions {
    pub(crate) defer: bool,
    pub(crate) retry: Vec<RetryPolicy>,
    pub(crate) timeout: Option<TimeoutPolicy>,
    pub(crate) cache: Option<CachePolicy>,
    pub(crate) handler: Option<NodeFn>,
    pub(crate) reads: Option<Vec<String>>,
    pub(crate) writes: Vec<String>,
    pub(crate) destinations: Vec<String>,
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
}

impl NodeOptions {
    pub fn new() -> NodeOptions {
        NodeOptions::default()
    }

    /// Runs only when nothing else is left to run.
    pub fn defer(mut self) -> NodeOptions {
        self.defer = true;
        self
    }

    /// The first policy that covers an error decides. Several are asked in order.
    pub fn retry(mut self, policy: RetryPolicy) -> NodeOptions {
        self.retry.push(policy);
        self
    }

    /// Limits of each attempt. They apply before retries, and those before the error handler, which
    /// itself has none, as in LangGraph.
    pub fn timeout(mut self, policy: TimeoutPolicy) -> NodeOptions {
        self.timeout = Some(policy).filter(TimeoutPolicy::has_limit);
        self
    }

    /// What the node wrote for an equal input before is used, without running it. Needs a graph with
    /// [`super::StateGraph::cache`].
    pub fn cache(mut self, policy: CachePolicy) -> NodeOptions {
        self.cache = Some(policy);
        self
    }

    /// A node that runs in place of this one when it has failed and is not tried again: in the same
    /// super-step, with the same input. It shows as `__error_handler__` and the node's name. The
    /// failed node's edges are not followed; the handler's command says where to go on, if
    /// anywhere. When the handler fails, the run does. LangGraph's `error_handler`.
    pub fn on_error<F, Fut, U>(mut self, handler: F) -> NodeOptions
    where
        F: Fn(State, NodeFailure, NodeContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<U, NodeError>> + Send + 'static,
        U: IntoCommand,
    {
        let handler = std::sync::Arc::new(handler);
        self.handler = Some(node_fn(move |state, context: NodeContext| {
            let handler = handler.clone();
            async move {
                let failure = context.failure().cloned();
                let no_failure = || NodeError::failed("RuntimeError", "nothing has failed");
                handler(state, failure.ok_or_else(no_failure)?, context).await
            }
        }));
        self
    }

    /// The node sees these keys only (its input schema).
    pub fn reads(mut self, keys: &[&str]) -> NodeOptions {
        self.reads = Some(keys.iter().map(|&key| key.to_owned()).collect());
        self
    }

    /// Something to know the node by. It shows beside its tasks and its messages in streams, and is
    /// not stored.
    pub fn metadata(mut self, key: &str, value: impl Into<serde_json::Value>) -> NodeOptions {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Keys that the node means to write. It may write others, too; what is said here is checked
    /// when the graph is compiled: the keys exist, and no two nodes that run side by side mean to
    /// write one that takes a single value.
    pub fn writes(mut self, keys: &[&str]) -> NodeOptions {
        self.writes.extend(keys.iter().map(|&key| key.to_owned()));
        self
    }

    /// Nodes that the commands of the node, or of its error handler, may go to, so that they count
    /// as reachable.
    pub fn destinations(mut self, nodes: &[&str]) -> NodeOptions {
        self.destinations.extend(nodes.iter().map(|&node| node.to_owned()));
        self
    }
}

impl NodeOptions {
    /// What does not make sense for all nodes of a graph together.
    pub(super) fn not_for_all(&self) -> Option<&'static str> {
        match self {
            _ if self.defer => Some("defer"),
            _ if self.reads.is_some() => Some("reads"),
            _ if !self.writes.is_empty() => Some("writes"),
            _ if !self.metadata.is_empty() => Some("metadata"),
            _ => None,
        }
    }

    /// These options, and where they say nothing those of `defaults`; but for the handler, which
    /// all nodes without one share.
    pub(super) fn or(mut self, defaults: &NodeOptions) -> NodeOptions {
        if self.retry.is_empty() {
            self.retry.clone_from(&defaults.retry);
        }
        self.timeout = self.timeout.or(defaults.timeout);
        self.cache = self.cache.or_else(|| defaults.cache.clone());
        self
    }
}
