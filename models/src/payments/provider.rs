//! The provider as a process of the world.

use std::sync::Arc;

use durasim_sim::{Process, World};

use super::desk::Desk;
use super::http::serve;
use super::keys::Keys;
use super::{Ledger, PaymentSettings};

/// The payment provider: HTTP/1.1 on port 80 of the process `payments`.
///
/// - `POST /v1/charges` `{business_id, amount_cents}`
/// - `POST /v1/refunds` `{charge_id, amount_cents?}`; without an amount, all that is left
/// - `GET /v1/charges?business_id=...`, the most recent first
/// - `GET /v1/charges/{id}`
///
/// A POST takes an `Idempotency-Key`. `x-request-id` and `x-thread-id` label the trace. An error is
/// `{error: {type, message}}`, some with a `code`.
pub struct PaymentProvider;

impl PaymentProvider {
    /// The process, and the host that others connect to.
    pub const NAME: &str = "payments";
    pub const PORT: u16 = 80;

    /// Starts it. Killed and restarted it knows its ledger and its keys; work that was under way is
    /// lost unless it had taken effect.
    ///
    /// # Panics
    /// If the settings make no sense ([`PaymentSettings::check`]), or the world has a process of
    /// that name.
    pub fn start(world: &World, settings: PaymentSettings, ledger: Ledger) -> Process {
        if let Err(complaint) = settings.check() {
            panic!("payment settings: {complaint}");
        }
        let (settings, keys) = (Arc::new(settings), Keys::default());
        world.process(Self::NAME, Self::NAME, move |me| {
            let (settings, ledger, keys) = (settings.clone(), ledger.clone(), keys.clone());
            Box::pin(async move {
                let listener = me.listen(Self::PORT).expect("a fresh process has its ports free");
                let desk = Desk { me: me.clone(), settings, ledger, keys };
                while let Ok(stream) = listener.accept().await {
                    let actor = stream.label().clone();
                    drop(me.spawn(&actor, serve(desk.clone(), stream)));
                }
            })
        })
    }
}
