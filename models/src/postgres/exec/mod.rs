//! Executing plans.
//!
//! Reading is a plain function of the store and a snapshot ([`query`]). Where something has to wait
//! (a lock, a sleep) or leaves a trace that no snapshot hides (a sequence, an advisory lock),
//! evaluation stops with a [`Halt`]; the session does the deed, notes what came of it in the
//! [`Memo`], and evaluates again from the start, where noted deeds are not done twice. So nothing
//! here ever waits while it holds the store.

mod aggregate;
mod arithmetic;
mod define;
mod effect;
mod eval;
mod function;
mod hash;
mod insert;
mod json;
mod locking;
mod memo;
mod modify;
mod query;
mod rows;
mod scan;

pub use arithmetic::compute;
pub use eval::{Context, Env, Facts};
pub use function::VERSION;
pub use memo::{Halt, Memo};
pub use query::{rows, with};
