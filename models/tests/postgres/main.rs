//! The model of PostgreSQL, held against the real server: the same scripts, the same answers.
#![cfg(not(madsim))]

mod client;
mod differential;
mod errors;
mod locks;
mod pooler;
mod queries;
mod saver;
mod script;
mod server;
mod side;
mod transactions;
