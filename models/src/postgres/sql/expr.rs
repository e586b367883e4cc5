//! Expressions with every name and type resolved.

use super::{Function, Query};
use crate::postgres::types::{Cell, Type};

#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    Const(Cell),
    /// A parameter, counted from 0.
    Param(usize),
    Column(ColumnRef),
    /// What the how-manyth aggregate of the query came to.
    Aggregate(usize),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    /// `IS NULL`
    IsNull(Box<Expr>),
    /// `IS TRUE`, `IS FALSE`
    Is(Box<Expr>, bool),
    /// Both sides have one type.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// `IS NOT DISTINCT FROM`
    Same(Box<Expr>, Box<Expr>),
    /// `left op ANY (array)`
    Any(Comparison, Box<Expr>, Box<Expr>),
    /// `left op ALL (array)`
    All(Comparison, Box<Expr>, Box<Expr>),
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    Negate(Box<Expr>),
    Cast(Box<Expr>, Type, Type),
    /// The first that is not null.
    Coalesce(Vec<Expr>),
    /// Conditions with their results, and the result of none of them.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    Like(Box<Expr>, Box<Expr>, bool),
    Array(Vec<Expr>, Type),
    Call(Function, Vec<Expr>),
    /// The one row and column of a query, or null.
    Scalar(Box<Query>),
    /// `ARRAY(query)`, of elements of this type.
    ArrayOf(Box<Query>, Type),
    Exists(Box<Query>),
    /// `left IN (query)`
    In(Box<Expr>, Box<Query>),
}

/// A column of a row at hand: of the query itself (`up` 0), or of one around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnRef {
    pub up: usize,
    /// Which item of FROM.
    pub item: usize,
    pub column: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Comparison {
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

impl Expr {
    pub fn column(up: usize, item: usize, column: usize) -> Expr {
        Expr::Column(ColumnRef { up, item, column })
    }

    /// Calls `see` with every column reference, as seen from `depth` queries further in.
    pub fn columns(&self, depth: usize, see: &mut impl FnMut(ColumnRef)) {
        if let Expr::Column(reference) = self
            && let Some(up) = reference.up.checked_sub(depth)
        {
            see(ColumnRef { up, ..*reference });
        }
        self.children(&mut |child| child.columns(depth, see));
        if let Expr::Scalar(query)
        | Expr::ArrayOf(query, _)
        | Expr::Exists(query)
        | Expr::In(_, query) = self
        {
            query.expressions(&mut |expr, inner| expr.columns_dyn(depth + inner, see));
        }
    }

    fn columns_dyn(&self, depth: usize, see: &mut dyn FnMut(ColumnRef)) {
        self.columns(depth, &mut |reference| see(reference));
    }

    /// Does it run a query?
    pub fn is_query(&self) -> bool {
        matches!(self, Expr::Scalar(_) | Expr::ArrayOf(..) | Expr::Exists(_) | Expr::In(..))
    }

    /// The expressions right below this one, those inside of a query not included.
    pub fn children<'a>(&'a self, see: &mut dyn FnMut(&'a Expr)) {
        match self {
            Expr::Const(_) | Expr::Param(_) | Expr::Column(_) | Expr::Aggregate(_) => {}
            Expr::Scalar(_) | Expr::ArrayOf(..) | Expr::Exists(_) => {}
            Expr::And(all) | Expr::Or(all) | Expr::Coalesce(all) => all.iter().for_each(see),
            Expr::Array(all, _) | Expr::Call(_, all) => all.iter().for_each(see),
            Expr::Not(one) | Expr::IsNull(one) | Expr::Is(one, _) => see(one),
            Expr::Negate(one) | Expr::Cast(one, _, _) | Expr::In(one, _) => see(one),
            Expr::Compare(_, left, right)
            | Expr::Same(left, right)
            | Expr::Any(_, left, right)
            | Expr::All(_, left, right)
            | Expr::Arithmetic(_, left, right)
            | Expr::Like(left, right, _) => {
                see(left);
                see(right);
            }
            Expr::Case(arms, otherwise) => {
                for (condition, result) in arms {
                    see(condition);
                    see(result);
                }
                see(otherwise);
            }
        }
    }

    /// The parts of a condition that must all hold.
    pub fn conjuncts(self) -> Vec<Expr> {
        match self {
            Expr::And(all) => all.into_iter().flat_map(Expr::conjuncts).collect(),
            other => vec![other],
        }
    }
}
