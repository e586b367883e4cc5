//! A durable agent-graph runtime with the semantics of LangGraph 1.2.9.
//!
//! The same code serves real traffic on tokio and runs inside a simulated world: everything
//! through which the world enters is a value in [`doors::Doors`]. Nothing here knows a simulator.

pub mod cache;
pub mod channels;
pub mod checkpoint;
pub mod doors;
pub mod graph;
pub mod http;
mod ordered;
pub mod pregel;
pub mod profile;
pub mod stream;
pub mod typed;
pub mod value;

pub use checkpoint::saver::Saver;
pub use doors::Doors;
pub use graph::{CompiledGraph, END, NodeContext, NodeError, START, State, StateGraph, Update};
pub use profile::{CancelStyle, Durability, Options, Profile};
pub use stream::{Chunk, RunStream, StreamMode};
// The derive. Nodes of untyped graphs read a type of the same name, which stands above.
pub use typed::{State, TypedGraph};
pub use value::Value;
