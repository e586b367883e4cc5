//! The model of PostgreSQL, held against the real server: the same scripts, the same answers.
#![cfg(not(madsim))]

mod client;
mod errors;
mod locks;
mod queries;
mod saver;
mod script;
mod side;
mod transactions;
