//! One call of an aggregate.

use super::{AggregateKind, Expr, Sort};
use crate::postgres::types::Type;

#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    pub kind: AggregateKind,
    pub argument: Option<Expr>,
    /// What stands between the parts of `string_agg`.
    pub separator: Option<Expr>,
    /// The type of the argument.
    pub ty: Type,
    pub distinct: bool,
    pub filter: Option<Expr>,
    pub order: Vec<Sort>,
}
