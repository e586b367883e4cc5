//! Paying through a provider: what a graph's charging node does, and what became of it.

mod client;
mod keying;
#[cfg(madsim)]
pub(crate) mod settle;

pub use keying::Keying;
pub(crate) use keying::charge;
