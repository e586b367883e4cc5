//! Graphs as data: channels, nodes made of a few actions, edges.
//!
//! The recorded cases of the conformance corpus describe their graphs this way, and so can a
//! scenario file. What a node does to the outside goes through an [`EffectSink`], so that whoever
//! runs the graph decides what an effect is: a line in a log, or a call into a simulated world.

mod build;
mod direction;
mod expression;
mod program;
mod python;
mod raises;
mod spec;

pub use build::{BuildError, EffectSink, build, build_counting};
pub use direction::Direction;
pub use expression::Expression;
pub use python::{python_error_text, python_repr, python_str};
pub use raises::Raises;
pub(crate) use spec::flatten;
pub use spec::{
    Action, ChannelSpec, ConditionalSpec, EdgeSpec, GraphSpec, NodeSpec, OneOrMany,
    OneOrManyDirections, ReducerSpec, RetrySpec, SendsSpec, TargetGraph,
};
