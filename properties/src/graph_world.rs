//! What a graph is given when it is built: the means to act on the world around it.

use std::sync::Arc;

use durasim_runtime::{NodeContext, NodeError};
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::payment::{self, Keying};
use crate::scenario::Effects;

/// What the world measures of a graph's effects, for one life of one server process.
pub(crate) trait Instruments: Send + Sync {
    /// Writes an execution of an effect down.
    fn executed<'a>(&'a self, context: &'a NodeContext, label: &'a str) -> BoxFuture<'a, ()>;

    /// Notes a step of a charge in the trace.
    fn note(&self, context: &NodeContext, name: &'static str, attempt: &str, booking: &str);

    /// Names the next attempt at a charge: never the same twice in a world.
    fn next_attempt(&self) -> String;

    /// Where the scenario has charges happen.
    fn effects(&self) -> Effects;
}

/// What a graph is given when it is built inside a server process of the world.
#[derive(Clone)]
pub struct GraphWorld(Option<Arc<dyn Instruments>>);

impl GraphWorld {
    /// For building a graph outside any world, to look at its shape or to serve it: nothing is
    /// measured there, and charges are only done for real inside a world.
    pub fn nowhere() -> GraphWorld {
        GraphWorld(None)
    }

    #[cfg_attr(not(madsim), expect(dead_code, reason = "a plain build has no world"))]
    pub(crate) fn inside(instruments: Arc<dyn Instruments>) -> GraphWorld {
        GraphWorld(Some(instruments))
    }

    /// Executes an effect: one line in the log of what really happened. Call it once per node
    /// execution, where the node does what cannot be undone.
    pub async fn effect(&self, context: &NodeContext) {
        self.effect_named(context, context.node()).await;
    }

    /// As [`GraphWorld::effect`], for a node with several effects: each has a label, and the node's
    /// labels are registered with [`crate::Registry::effects_named`].
    pub async fn effect_named(&self, context: &NodeContext, label: &str) {
        if let Some(world) = &self.0 {
            context.effect(label, world.executed(context, label)).await;
        }
    }

    /// Charges for `booking`: at the payment provider when the scenario's effects go over HTTP,
    /// and in the log of what really happened once that is known. Fails when the provider refuses
    /// or never answers.
    pub async fn charge(
        &self,
        context: &NodeContext,
        keying: Keying,
        booking: &str,
        cents: u64,
    ) -> Result<(), NodeError> {
        if let Some(world) = self.0.as_deref().filter(|world| world.effects() == Effects::Http) {
            let charging = payment::charge(world, context, keying, booking, cents);
            context.effect("payments", charging).await?;
        }
        self.effect(context).await;
        Ok(())
    }

    /// Sends one line to a party at `authority` (`host:port`) and reads the line it answers. Fails
    /// when there is no answer: whether the party has acted is then unknown.
    pub async fn ask(
        &self,
        context: &NodeContext,
        authority: &str,
        line: &str,
    ) -> std::io::Result<String> {
        let call = async {
            let mut stream = context.doors().connector.connect(authority).await?;
            stream.write_all(format!("{line}\n").as_bytes()).await?;
            let mut answer = String::new();
            while !answer.ends_with('\n') {
                let mut byte = [0];
                stream.read_exact(&mut byte).await?;
                answer.push(char::from(byte[0]));
            }
            Ok(answer.trim_end().to_owned())
        };
        context.effect(authority, call).await
    }
}
