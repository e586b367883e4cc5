//! What the world measures of a graph's effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use durasim_models::{Effect, EffectLog, LeakyLog};
use durasim_runtime::NodeContext;
use durasim_sim::{Labels, Process};
use futures::future::BoxFuture;

use crate::graph_world::Instruments;
use crate::scenario::Effects;

/// The instruments of one life of a server process.
pub(super) struct Measured {
    pub process: Process,
    /// The truth.
    pub log: EffectLog,
    /// A second log, which may lose lines.
    pub leaky: Option<LeakyLog>,
    pub effects: Effects,
    pub attempts: AtomicU64,
}

fn id(id: Option<&str>) -> Option<Arc<str>> {
    id.map(Arc::from)
}

impl Instruments for Measured {
    fn executed<'a>(&'a self, context: &'a NodeContext, label: &'a str) -> BoxFuture<'a, ()> {
        let process = &self.process;
        Box::pin(async move {
            let effect = Effect {
                at: process.world().now(),
                process: process.name().into(),
                incarnation: process.incarnation(),
                thread: context.thread().unwrap_or_default().into(),
                request: id(context.request()),
                run: id(context.run()),
                node: context.node().into(),
                label: label.into(),
                task: context.task().into(),
                checkpoint: context.checkpoint().into(),
                step: context.step(),
            };
            self.log.append(process, effect);
            if let Some(leaky) = &self.leaky {
                leaky.append(process, context.thread().unwrap_or_default(), label).await;
            }
        })
    }

    fn note(&self, context: &NodeContext, name: &'static str, attempt: &str, booking: &str) {
        let labels = Labels {
            request: id(context.request()),
            run: id(context.run()),
            thread: id(context.thread()),
            checkpoint: Some(context.checkpoint().into()),
            task: Some(context.task().into()),
        };
        let fields = vec![("attempt", attempt.into()), ("booking", booking.into())];
        self.process.note(labels, name, fields);
    }

    fn next_attempt(&self) -> String {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        format!("{}#{}/{attempt}", self.process.name(), self.process.incarnation())
    }

    fn effects(&self) -> Effects {
        self.effects
    }
}
