//! Five ways of not charging twice, of which one works.

use std::time::Duration;

use durasim_runtime::{NodeContext, NodeError};
use hyper::Method;
use serde_json::json;

use super::client::{Lost, Reply, request};
use crate::graph_world::Instruments;

/// Before a request is repeated.
const PAUSE: Duration = Duration::from_millis(50);
/// A request whose reply keeps being lost, or whose key stays in use, is given up after this many.
const ATTEMPTS: usize = 12;

/// How a charge is kept from happening twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keying {
    /// Not at all: a lost reply is answered with another request.
    None,
    /// A key made in the node. A retry inside the node is safe; the node that runs again makes
    /// another key.
    Minted,
    /// Look whether it was charged, and charge if not. Two that look at once both see nothing.
    LookUpFirst,
    /// The booking's id, but a key that is in use (409) is taken for a used-up one.
    FreshOnConflict,
    /// The booking's id, from the client's own request: the same for everybody who means the same
    /// charge. A key that is in use is waited for.
    Booking,
}

/// Charges `booking` through the provider, and keeps at it until there is an answer.
pub(crate) async fn charge(
    world: &dyn Instruments,
    context: &NodeContext,
    keying: Keying,
    booking: &str,
    cents: u64,
) -> Result<(), NodeError> {
    let mut key = match keying {
        Keying::None | Keying::LookUpFirst => None,
        Keying::Minted => Some(format!("{:016x}", context.doors().entropy.u64("idempotency.key"))),
        Keying::FreshOnConflict | Keying::Booking => Some(format!("charge-{booking}")),
    };
    for attempt in 1..=ATTEMPTS {
        if keying == Keying::LookUpFirst && is_charged(context, booking).await {
            return Ok(());
        }
        match post(world, context, key.as_deref(), booking, cents).await {
            Ok(reply) => match (reply.status, keying) {
                (200..300, _) => return Ok(()),
                (409, Keying::FreshOnConflict) => key = Some(format!("charge-{booking}-{attempt}")),
                (409, _) => context.sleep(PAUSE).await,
                (status, _) => {
                    let message = reply.body["error"]["message"].as_str().unwrap_or("no reason");
                    return Err(NodeError::failed("PaymentError", format!("{status}: {message}")));
                }
            },
            Err(Lost) => context.sleep(PAUSE).await,
        }
    }
    Err(NodeError::failed("PaymentError", "no answer; whether it was charged is unknown"))
}

async fn is_charged(context: &NodeContext, booking: &str) -> bool {
    let path = format!("/v1/charges?business_id={booking}");
    let found = request(context, Method::GET, &path, None, None, || ()).await;
    found.is_ok_and(|reply| {
        let charges = reply.body["data"].as_array();
        charges.is_some_and(|all| all.iter().any(|charge| charge["state"] == "succeeded"))
    })
}

/// One request. The trace has when it may have left, and when its answer was read.
async fn post(
    world: &dyn Instruments,
    context: &NodeContext,
    key: Option<&str>,
    booking: &str,
    cents: u64,
) -> Result<Reply, Lost> {
    let attempt = world.next_attempt();
    let body = json!({ "business_id": booking, "amount_cents": cents });
    let sent = || world.note(context, "charge.sent", &attempt, booking);
    let reply = request(context, Method::POST, "/v1/charges", key, Some(body), sent).await?;
    world.note(context, "charge.answered", &attempt, booking);
    Ok(reply)
}
