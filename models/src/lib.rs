//! Outside parties, as programs inside the simulated world.
//!
//! Each is written from the public contract of what it stands for and shares no code with what it
//! is used to judge.

#[cfg(madsim)]
pub mod balancer;
#[cfg(madsim)]
pub mod browser;
pub mod effect_log;
#[cfg(madsim)]
pub mod leaky_log;
pub mod payments;
pub mod postgres;

#[cfg(madsim)]
pub use browser::{Browser, Ending, Leave, Visit};
pub use effect_log::{Effect, EffectLog};
#[cfg(madsim)]
pub use leaky_log::LeakyLog;
#[cfg(madsim)]
pub use payments::PaymentProvider;
pub use payments::{Charge, ChargeState, Ledger, PaymentSettings, Refund};
pub use postgres::{Postgres, PostgresSettings};
