//! PostgreSQL, as its documentation describes version 15: the wire protocol over a byte stream, and
//! behind it the part of SQL that savers, locks, leases and queues use.
//!
//! What it has not is refused with 0A000, which names the construct.

mod clock;
mod engine;
mod error;
mod exec;
mod locks;
mod server;
mod session;
mod settings;
mod sql;
mod store;
mod types;
mod wire;

pub use server::Postgres;
pub use settings::{Micros, PostgresSettings};
pub use types::{Array, Cell, Decimal, Float, Interval, Json, Row, Scalar};
