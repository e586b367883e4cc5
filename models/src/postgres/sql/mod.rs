//! SQL: from a statement's text to its plan.
//!
//! `sqlparser` reads the text; [`bind`] resolves names and types against the tables as they are and
//! refuses what the model does not know, by name. What is refused is SQLSTATE 0A000.

mod aggregate;
pub mod bind;
mod expr;
mod function;
mod parse;
mod plan;

pub use aggregate::Aggregate;
pub use expr::{Arithmetic, ColumnRef, Comparison, Expr};
pub use function::{Advisory, AggregateKind, Deed, Function};
pub use parse::{Parsed, parse, parse_once};
pub use plan::{
    Action, Assignment, Before, Body, Conflict, ConflictUpdate, Definition, Delete, Field, From,
    Group, Insert, InsertSource, Plan, Query, RowLock, Select, SessionAction, Sort, Source, Update,
    WaitPolicy,
};
