//! The messages of the protocol, version 3.
//! <https://www.postgresql.org/docs/15/protocol-message-formats.html>

mod backend;
mod connection;
mod frontend;

pub use backend::Out;
pub use connection::{Connection, First};
pub use frontend::{Bind, Message, Target};
