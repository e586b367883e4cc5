//! Binding expressions.

use sqlparser::ast::{self, CastKind, DateTimeField, Expr as Ast, InTarget, UnaryOperator, Value};

use super::coerce::Context;
use super::{Binder, Bound, names};
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::{Comparison, Expr, Function, WaitPolicy};
use crate::postgres::types::{Cell, Decimal, Type, from_text};

pub(super) fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

fn not(negated: bool, expr: Expr) -> Expr {
    if negated { Expr::Not(boxed(expr)) } else { expr }
}

impl Binder<'_> {
    pub(super) fn expr(&mut self, ast: &Ast) -> Bound<Expr> {
        match ast {
            Ast::Nested(inner) => self.expr(inner),
            Ast::Identifier(name) => self.column(name),
            Ast::CompoundIdentifier(path) => match &path[..] {
                [table, column] => self.qualified_column(table, column),
                [_schema, table, column] => self.qualified_column(table, column),
                _ => Err(PgError::unsupported(format_args!("the name {ast}"))),
            },
            Ast::Value(value) => self.literal(&value.value),
            Ast::TypedString(typed) => {
                let ty = names::data_type(&typed.data_type)?;
                let text = typed.value.value.clone().into_string();
                let text = text.ok_or_else(|| PgError::unsupported(ast))?;
                Ok((Expr::Const(from_text(ty, &text)?), ty))
            }
            Ast::Interval(interval) => self.interval(interval),
            Ast::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
            } => {
                let ty = names::data_type(data_type)?;
                let bound = self.cast_operand(expr, ty)?;
                self.explicit_cast(bound, ty)
            }
            Ast::UnaryOp { op, expr } => self.unary(op, expr),
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right),
            Ast::IsNull(inner) => self.is_null(inner, false),
            Ast::IsNotNull(inner) => self.is_null(inner, true),
            Ast::IsTrue(inner) => self.is(inner, true, false),
            Ast::IsNotTrue(inner) => self.is(inner, true, true),
            Ast::IsFalse(inner) => self.is(inner, false, false),
            Ast::IsNotFalse(inner) => self.is(inner, false, true),
            Ast::IsNotDistinctFrom(left, right) => self.same(left, right, false),
            Ast::IsDistinctFrom(left, right) => self.same(left, right, true),
            Ast::Between { expr, negated, low, high } => {
                let from = self.compared(expr, Comparison::GreaterOrEqual, low)?;
                let to = self.compared(expr, Comparison::LessOrEqual, high)?;
                Ok((not(*negated, Expr::And(vec![from, to])), Type::BOOL))
            }
            Ast::In { expr, target, negated, global: false } => self.is_in(expr, target, *negated),
            Ast::AnyOp { left, compare_op, right, .. } => {
                self.quantified(left, compare_op, right, true)
            }
            Ast::AllOp { left, compare_op, right } => {
                self.quantified(left, compare_op, right, false)
            }
            Ast::Like { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(expr, pattern, false, *negated)
            }
            Ast::ILike { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(expr, pattern, true, *negated)
            }
            Ast::Case { operand, conditions, else_result, .. } => {
                let outside = std::mem::replace(&mut self.conditional, true);
                let bound = self.case(operand.as_deref(), conditions, else_result.as_deref());
                self.conditional = outside;
                bound
            }
            Ast::Array(array) => self.array(&array.elem),
            Ast::Function(function) => {
                let outside = self.conditional;
                self.conditional |= names::object(&function.name)? == "coalesce";
                let bound = self.call(function);
                self.conditional = outside;
                bound
            }
            Ast::Subquery(query) => {
                let (query, fields) = self.query(query, true)?;
                self.lockable(&query)?;
                match &fields[..] {
                    [field] => Ok((Expr::Scalar(Box::new(query)), field.ty)),
                    _ => Err(PgError::new("42601", "subquery must return only one column")),
                }
            }
            Ast::Exists { subquery, negated } => {
                let (query, _) = self.query(subquery, true)?;
                self.lockable(&query)?;
                Ok((not(*negated, Expr::Exists(Box::new(query))), Type::BOOL))
            }
            Ast::Extract { field: DateTimeField::Epoch, expr, .. } => {
                let (expr, ty) = self.expr(expr)?;
                match ty {
                    Type::TIMESTAMPTZ | Type::INTERVAL => {
                        Ok((Expr::Call(Function::EpochOf, vec![expr]), Type::NUMERIC))
                    }
                    _ => Err(PgError::unsupported(format_args!("extract from {}", ty.name()))),
                }
            }
            Ast::Substring { expr, substring_from: Some(from), substring_for, .. } => {
                let mut args = vec![self.expr(expr)?, self.expr(from)?];
                if let Some(length) = substring_for {
                    args.push(self.expr(length)?);
                }
                self.named_call("substring", args)
            }
            Ast::CompoundFieldAccess { root, access_chain } => self.element(root, access_chain),
            Ast::Collate { expr, collation } if names::object(collation)? == "C" => self.expr(expr),
            other => Err(PgError::unsupported(format_args!("the expression {other}"))),
        }
    }

    fn literal(&mut self, value: &Value) -> Bound<Expr> {
        let unknown = |text: &str| Ok((Expr::Const(Cell::text(text)), Type::UNKNOWN));
        match value {
            Value::Number(digits, false) => number(digits),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => unknown(text),
            Value::DollarQuotedString(text) => unknown(&text.value),
            Value::Boolean(value) => Ok((Expr::Const(Cell::Bool(*value)), Type::BOOL)),
            Value::Null => Ok((Expr::Const(Cell::Null), Type::UNKNOWN)),
            Value::Placeholder(name) => self.placeholder(name),
            other => Err(PgError::unsupported(format_args!("the literal {other}"))),
        }
    }

    /// `$1`
    fn placeholder(&mut self, name: &str) -> Bound<Expr> {
        let number = name.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
        let at = number.and_then(|number| number.checked_sub(1));
        let at = at.filter(|at| self.takes_params && *at < 65_535);
        let missing = || PgError::new("42P02", format!("there is no parameter {name}"));
        let at = at.ok_or_else(missing)?;
        if self.params.len() <= at {
            self.params.resize(at + 1, Type::UNKNOWN);
        }
        Ok((Expr::Param(at), self.params[at]))
    }

    fn interval(&mut self, interval: &ast::Interval) -> Bound<Expr> {
        let ast::Interval { value, leading_field: None, last_field: None, .. } = interval else {
            return Err(PgError::unsupported(format_args!("the interval {interval}")));
        };
        let bound = self.expr(value)?;
        self.explicit_cast(bound, Type::INTERVAL)
    }

    /// In `array[...]::text[]` and the like, empty lists have their type from the cast.
    fn cast_operand(&mut self, ast: &Ast, ty: Type) -> Bound<Expr> {
        match ast {
            Ast::Array(array) if array.elem.is_empty() && ty.array => {
                Ok((Expr::Array(Vec::new(), ty.element()), ty))
            }
            other => self.expr(other),
        }
    }

    pub(super) fn explicit_cast(&mut self, (expr, from): (Expr, Type), ty: Type) -> Bound<Expr> {
        let cast = self.coerced(expr, from, ty, Context::Explicit)?;
        let cannot = || {
            let (from, to) = (from.name(), ty.name());
            PgError::new("42846", format!("cannot cast type {from} to {to}"))
        };
        Ok((cast.ok_or_else(cannot)?, ty))
    }

    fn unary(&mut self, op: &UnaryOperator, ast: &Ast) -> Bound<Expr> {
        let bound = self.expr(ast)?;
        match op {
            UnaryOperator::Not => {
                let condition = self.condition("NOT", bound)?;
                Ok((Expr::Not(boxed(condition)), Type::BOOL))
            }
            UnaryOperator::Plus if bound.1.is_number() => Ok(bound),
            UnaryOperator::Minus => match bound {
                // So that the smallest bigint has a literal.
                (Expr::Const(Cell::Numeric(n)), _) => number(&format!("-{n}")),
                (expr, ty) if ty.is_number() || ty == Type::INTERVAL => {
                    Ok((Expr::Negate(boxed(expr)), ty))
                }
                (_, ty) => {
                    let ty = ty.name();
                    Err(PgError::new("42883", format!("operator does not exist: - {ty}")))
                }
            },
            other => Err(PgError::unsupported(format_args!("the operator {other}"))),
        }
    }

    fn is_null(&mut self, ast: &Ast, negated: bool) -> Bound<Expr> {
        let (expr, _) = self.expr(ast)?;
        Ok((not(negated, Expr::IsNull(boxed(expr))), Type::BOOL))
    }

    fn is(&mut self, ast: &Ast, wanted: bool, negated: bool) -> Bound<Expr> {
        let bound = self.expr(ast)?;
        let expr = self.condition("IS TRUE", bound)?;
        Ok((not(negated, Expr::Is(boxed(expr), wanted)), Type::BOOL))
    }

    fn same(&mut self, left: &Ast, right: &Ast, negated: bool) -> Bound<Expr> {
        let (left, right) = (self.expr(left)?, self.expr(right)?);
        let (a, b, _) = self.comparable(left, "=", right)?;
        Ok((not(negated, Expr::Same(boxed(a), boxed(b))), Type::BOOL))
    }

    fn is_in(&mut self, ast: &Ast, target: &InTarget, negated: bool) -> Bound<Expr> {
        let found = match target {
            InTarget::List(list) => {
                let each = list.iter().map(|item| self.compared(ast, Comparison::Equal, item));
                Expr::Or(each.collect::<Result<_>>()?)
            }
            InTarget::Subquery(query) => self.in_query(ast, query)?,
            other => return Err(PgError::unsupported(format_args!("IN {other:?}"))),
        };
        Ok((not(negated, found), Type::BOOL))
    }

    pub(super) fn in_query(&mut self, left: &Ast, query: &ast::Query) -> Result<Expr> {
        let left = self.expr(left)?;
        let (query, fields) = self.query(query, true)?;
        self.lockable(&query)?;
        let [field] = &fields[..] else {
            return Err(PgError::new("42601", "subquery has too many columns"));
        };
        let (left, _, ty) = self.comparable(left, "=", (Expr::Const(Cell::Null), field.ty))?;
        // The query's own values are compared as they are.
        match ty == field.ty || (ty.is_string() && field.ty.is_string()) {
            true => Ok(Expr::In(boxed(left), Box::new(query))),
            false => Err(PgError::unsupported("IN over different types")),
        }
    }

    /// A locking query inside an expression runs once and before the rest.
    pub(super) fn lockable(&self, query: &crate::postgres::sql::Query) -> Result<()> {
        let waits = query.lock.is_some_and(|lock| lock.wait != WaitPolicy::Skip);
        match query.lock.is_some() && query.correlated {
            true => Err(PgError::unsupported(format_args!(
                "a locking subquery that depends on the row (waits: {waits})"
            ))),
            false => Ok(()),
        }
    }

    fn like(&mut self, left: &Ast, pattern: &Ast, any_case: bool, negated: bool) -> Bound<Expr> {
        let (left, pattern) = (self.expr(left)?, self.expr(pattern)?);
        let (left, pattern) =
            (self.argument(left, Type::TEXT)?, self.argument(pattern, Type::TEXT)?);
        Ok((not(negated, Expr::Like(boxed(left), boxed(pattern), any_case)), Type::BOOL))
    }

    fn case(
        &mut self,
        operand: Option<&Ast>,
        arms: &[ast::CaseWhen],
        otherwise: Option<&Ast>,
    ) -> Bound<Expr> {
        let (mut conditions, mut results) = (Vec::new(), Vec::new());
        for arm in arms {
            conditions.push(match operand {
                Some(operand) => self.compared(operand, Comparison::Equal, &arm.condition)?,
                None => {
                    let bound = self.expr(&arm.condition)?;
                    self.condition("CASE/WHEN", bound)?
                }
            });
            results.push(self.expr(&arm.result)?);
        }
        results.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => (Expr::Const(Cell::Null), Type::UNKNOWN),
        });
        let (mut results, ty) = self.all_alike("CASE", results)?;
        let otherwise = results.pop().expect("one was pushed last");
        let arms = conditions.into_iter().zip(results).collect();
        Ok((Expr::Case(arms, boxed(otherwise)), ty))
    }

    fn array(&mut self, items: &[Ast]) -> Bound<Expr> {
        let items = items.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>>>()?;
        if items.is_empty() {
            let message = "cannot determine type of empty array";
            return Err(PgError::new("42P18", message));
        }
        let (items, ty) = self.all_alike("ARRAY", items)?;
        Ok((Expr::Array(items, ty), Type { array: true, ..ty }))
    }

    fn element(&mut self, root: &Ast, chain: &[ast::AccessExpr]) -> Bound<Expr> {
        let (root, ty) = self.expr(root)?;
        let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = chain else {
            return Err(PgError::unsupported("slices and fields"));
        };
        if !ty.array {
            return Err(PgError::unsupported(format_args!("subscripts of {}", ty.name())));
        }
        let index = self.expr(index)?;
        let index = self.argument(index, Type::INT4)?;
        Ok((Expr::Call(Function::ArrayElement, vec![root, index]), ty.element()))
    }
}

/// The smallest type that holds the number.
fn number(digits: &str) -> Bound<Expr> {
    if let Ok(n) = digits.parse::<i32>() {
        return Ok((Expr::Const(Cell::Int4(n)), Type::INT4));
    }
    if let Ok(n) = digits.parse::<i64>() {
        return Ok((Expr::Const(Cell::Int8(n)), Type::INT8));
    }
    let invalid = || PgError::new("42601", format!("syntax error at or near \"{digits}\""));
    let n = Decimal::parse(digits).ok_or_else(invalid)?;
    Ok((Expr::Const(Cell::Numeric(n)), Type::NUMERIC))
}
