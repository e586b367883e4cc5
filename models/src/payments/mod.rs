//! A payment provider, as Stripe's public contract describes one: charges, refunds, look-ups, and
//! idempotency keys that make a POST safe to repeat.
//!
//! | a repeated key meets | the answer | source |
//! |---|---|---|
//! | an answer that was saved | that answer, 500s included, with `Idempotent-Replayed: true` | [1], [2] |
//! | its first request, still running | 409, and nothing is saved | [1], [2] |
//! | other parameters than the first time | an error, 400 | [1] |
//! | a first request that failed validation | is handled as new: nothing was saved | [1] |
//! | an answer older than 24 hours | may be handled as new | [1] |
//!
//! Validation is what a request alone can tell. What depends on the account (an unknown charge, a
//! refund that is too high, a declined card) is found while executing, and so is an answer to be
//! saved [2].
//!
//! What the contract leaves open, and what is done here: work that has begun goes on when its client
//! hangs up, as it belongs to the provider and not to the connection. The charge and its saved
//! answer are one transaction, so no kill comes between them; a key whose work died before is free
//! again. Of two reasons to refuse a key (other parameters, still running) the parameters count
//! first.
//!
//! Left out: authentication, currencies, authorisation and capture, webhooks, rate limits.
//!
//! [1] <https://docs.stripe.com/api/idempotent_requests> (API v1)
//! [2] <https://docs.stripe.com/error-low-level>

#[cfg(madsim)]
mod answer;
#[cfg(madsim)]
mod desk;
#[cfg(madsim)]
mod fate;
#[cfg(madsim)]
mod http;
#[cfg(madsim)]
mod keys;
mod ledger;
#[cfg(madsim)]
mod provider;
#[cfg(madsim)]
mod request;
mod settings;

pub use ledger::{Charge, ChargeState, Ledger, Refund};
#[cfg(madsim)]
pub use provider::PaymentProvider;
pub use settings::{PaymentSettings, Ratio, Span};
