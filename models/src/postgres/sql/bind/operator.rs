//! Binding operators.

use sqlparser::ast::{BinaryOperator as Op, Expr as Ast};

use super::coerce::Context;
use super::expr::boxed;
use super::{Binder, Bound};
use crate::postgres::error::{PgError, Result};
use crate::postgres::exec::compute;
use crate::postgres::sql::{Arithmetic, Comparison, Expr, Function};
use crate::postgres::types::{Cell, Scalar, Type};

fn comparison(op: &Op) -> Option<Comparison> {
    Some(match op {
        Op::Eq => Comparison::Equal,
        Op::NotEq => Comparison::NotEqual,
        Op::Lt => Comparison::Less,
        Op::LtEq => Comparison::LessOrEqual,
        Op::Gt => Comparison::Greater,
        Op::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn arithmetic(op: &Op) -> Option<Arithmetic> {
    Some(match op {
        Op::Plus => Arithmetic::Add,
        Op::Minus => Arithmetic::Subtract,
        Op::Multiply => Arithmetic::Multiply,
        Op::Divide => Arithmetic::Divide,
        Op::Modulo => Arithmetic::Modulo,
        _ => return None,
    })
}

fn no_operator(left: Type, op: &str, right: Type) -> PgError {
    let (left, right) = (left.name(), right.name());
    PgError::new("42883", format!("operator does not exist: {left} {op} {right}"))
}

impl Binder<'_> {
    /// Two operands that a comparison takes.
    ///
    /// # Errors
    /// 42883.
    pub(super) fn comparable(
        &mut self,
        left: (Expr, Type),
        op: &str,
        right: (Expr, Type),
    ) -> Result<(Expr, Expr, Type)> {
        let (a, b) = (left.1, right.1);
        let (left, right) = match a.is_unknown() && b.is_unknown() {
            true => (self.settled(left)?, self.settled(right)?),
            false => (left, right),
        };
        self.unified(left, right)?.ok_or_else(|| no_operator(a, op, b))
    }

    pub(super) fn compared(&mut self, left: &Ast, op: Comparison, right: &Ast) -> Result<Expr> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (left, right, _) = self.comparable(left, "=", right)?;
        Ok(Expr::Compare(op, boxed(left), boxed(right)))
    }

    pub(super) fn binary(&mut self, left: &Ast, op: &Op, right: &Ast) -> Bound<Expr> {
        if let Op::And | Op::Or = op {
            let what = if *op == Op::And { "AND" } else { "OR" };
            let left = self.expr(left)?;
            let left = self.condition(what, left)?;
            let right = self.expr(right)?;
            let both = vec![left, self.condition(what, right)?];
            let both = if *op == Op::And { Expr::And(both) } else { Expr::Or(both) };
            return Ok((both, Type::BOOL));
        }
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let shown = op.to_string();
        if let Some(comparison) = comparison(op) {
            let (left, right, _) = self.comparable(left, &shown, right)?;
            return Ok((Expr::Compare(comparison, boxed(left), boxed(right)), Type::BOOL));
        }
        if let Some(op) = arithmetic(op) {
            return self.computed(left, op, &shown, right);
        }
        match op {
            Op::StringConcat => self.concatenated(left, right),
            Op::Arrow => self.json_get(left, right, false),
            Op::LongArrow => self.json_get(left, right, true),
            Op::HashArrow => self.json_call(Function::JsonPath, left, right, TEXTS, Type::JSONB),
            Op::HashLongArrow => {
                self.json_call(Function::JsonPathText, left, right, TEXTS, Type::TEXT)
            }
            Op::AtArrow => {
                self.json_call(Function::JsonContains, left, right, Type::JSONB, Type::BOOL)
            }
            Op::ArrowAt => {
                self.json_call(Function::JsonContains, right, left, Type::JSONB, Type::BOOL)
            }
            Op::Question => {
                self.json_call(Function::JsonHasKey, left, right, Type::TEXT, Type::BOOL)
            }
            other => Err(PgError::unsupported(format_args!("the operator {other}"))),
        }
    }

    fn json_call(
        &mut self,
        function: Function,
        left: (Expr, Type),
        right: (Expr, Type),
        wanted: Type,
        result: Type,
    ) -> Bound<Expr> {
        let (a, b) = (left.1, right.1);
        let left = self.coerced(left.0, a, Type::JSONB, Context::Implicit)?;
        let right = self.coerced(right.0, b, wanted, Context::Implicit)?;
        match left.zip(right) {
            Some((left, right)) => Ok((Expr::Call(function, vec![left, right]), result)),
            None => Err(no_operator(a, "(of jsonb)", b)),
        }
    }

    /// `->` and `->>`, by key or by place.
    fn json_get(&mut self, left: (Expr, Type), right: (Expr, Type), as_text: bool) -> Bound<Expr> {
        let (function, result) = match as_text {
            true => (Function::JsonGetText, Type::TEXT),
            false => (Function::JsonGet, Type::JSONB),
        };
        let wanted = if right.1.is_integer() { Type::INT4 } else { Type::TEXT };
        self.json_call(function, left, right, wanted, result)
    }

    fn concatenated(&mut self, left: (Expr, Type), right: (Expr, Type)) -> Bound<Expr> {
        let (a, b) = (left.1, right.1);
        let (function, wanted) = match (a, b) {
            _ if a.array && (b == a || b.is_unknown()) => (Function::ArrayConcat, [a, a]),
            _ if a.array && b == a.element() => (Function::ArrayAppend, [a, b]),
            (Type::JSONB, _) | (_, Type::JSONB) => (Function::JsonMerge, [Type::JSONB; 2]),
            (Type::BYTEA, _) | (_, Type::BYTEA) => (Function::ConcatBytes, [Type::BYTEA; 2]),
            _ if [a, b].iter().any(|ty| ty.is_string() || ty.is_unknown()) => {
                (Function::Concat, [Type::TEXT; 2])
            }
            _ => return Err(no_operator(a, "||", b)),
        };
        // Anything but an array may stand beside text.
        let context = match function {
            Function::Concat => Context::Assignment,
            _ => Context::Implicit,
        };
        let left = self.coerced(left.0, a, wanted[0], context)?;
        let right = self.coerced(right.0, b, wanted[1], context)?;
        match left.zip(right) {
            Some((left, right)) => Ok((Expr::Call(function, vec![left, right]), wanted[0])),
            None => Err(no_operator(a, "||", b)),
        }
    }

    fn computed(
        &mut self,
        left: (Expr, Type),
        op: Arithmetic,
        shown: &str,
        right: (Expr, Type),
    ) -> Bound<Expr> {
        use Arithmetic::{Add, Divide, Multiply, Subtract};
        let (a, b) = (left.1, right.1);
        let none = || no_operator(a, shown, b);
        let (wanted, result) = match (a, op, b) {
            (Type::JSONB, Subtract, _) => {
                return self.json_call(Function::JsonRemove, left, right, Type::TEXT, Type::JSONB);
            }
            (Type::TIMESTAMPTZ, Add | Subtract, Type::INTERVAL) => ([a, b], a),
            (Type::INTERVAL, Add, Type::TIMESTAMPTZ) => ([a, b], b),
            (Type::TIMESTAMPTZ, Subtract, Type::TIMESTAMPTZ) => ([a, b], Type::INTERVAL),
            (Type::TIMESTAMPTZ, Add, _) if b.is_unknown() => ([a, Type::INTERVAL], a),
            (Type::TIMESTAMPTZ, Subtract, _) if b.is_unknown() => ([a, a], Type::INTERVAL),
            (Type::INTERVAL, Add | Subtract, Type::INTERVAL) => ([a, b], a),
            (Type::INTERVAL, Multiply | Divide, _) if b.is_number() || b.is_unknown() => {
                ([a, Type::FLOAT8], a)
            }
            (_, Multiply, Type::INTERVAL) if a.is_number() || a.is_unknown() => {
                ([Type::FLOAT8, b], b)
            }
            _ => {
                let Some((left, right, ty)) = self.unified(left, right)? else {
                    return Err(none());
                };
                if ty == Type::NUMERIC {
                    return Err(PgError::unsupported("arithmetic of numeric"));
                }
                if !ty.is_number() {
                    return Err(none());
                }
                return Ok((self.folded(op, left, right)?, ty));
            }
        };
        let left = self.coerced(left.0, a, wanted[0], Context::Implicit)?;
        let right = self.coerced(right.0, b, wanted[1], Context::Implicit)?;
        let (left, right) = left.zip(right).ok_or_else(none)?;
        Ok((self.folded(op, left, right)?, result))
    }

    /// Constants are computed at once, so that what is wrong with them is known before the statement
    /// runs. Where a condition decides whether they are computed at all, they wait for it.
    fn folded(&self, op: Arithmetic, left: Expr, right: Expr) -> Result<Expr> {
        match (left, right) {
            (Expr::Const(a), Expr::Const(b)) if !self.conditional => {
                compute(op, a, b).map(Expr::Const)
            }
            (left, right) => Ok(Expr::Arithmetic(op, boxed(left), boxed(right))),
        }
    }

    /// `left op ANY (array or query)`
    pub(super) fn quantified(
        &mut self,
        left: &Ast,
        op: &Op,
        right: &Ast,
        any: bool,
    ) -> Bound<Expr> {
        let Some(comparison) = comparison(op) else {
            return Err(PgError::unsupported(format_args!("{op} ANY")));
        };
        if let Ast::Subquery(query) = right {
            return match (any, comparison) {
                (true, Comparison::Equal) => {
                    self.in_query(left, query).map(|found| (found, Type::BOOL))
                }
                _ => Err(PgError::unsupported("a quantified comparison with a query")),
            };
        }
        let bound = self.expr(left)?;
        let (left, ty) = self.settled(bound)?;
        let (right, array) = self.expr(right)?;
        let list = Type { array: true, ..ty };
        let (left, right) = match array {
            _ if array.is_unknown() || array == list => {
                (left, self.coerced(right, array, list, Context::Implicit)?)
            }
            _ if array.array => {
                let pair =
                    self.comparable((left, ty), "=", (Expr::Const(Cell::Null), array.element()))?;
                let wanted = Type { array: true, ..pair.2 };
                (pair.0, self.coerced(right, array, wanted, Context::Implicit)?)
            }
            _ => {
                let message = "op ANY/ALL (array) requires array on right side";
                return Err(PgError::new("42809", message));
            }
        };
        let right = right.ok_or_else(|| no_operator(ty, "= ANY", array))?;
        let of = if any { Expr::Any } else { Expr::All };
        Ok((of(comparison, boxed(left), boxed(right)), Type::BOOL))
    }
}

const TEXTS: Type = Type::array_of(Scalar::Text);
