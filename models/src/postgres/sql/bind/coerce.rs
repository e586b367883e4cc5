//! Making a value the type that its place wants.
//! <https://www.postgresql.org/docs/15/typeconv.html>

use super::{Binder, Bound};
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::Expr;
use crate::postgres::types::{Cell, Scalar, Type, cast, from_text};

/// How willing a place is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// An operand or argument: only what loses nothing.
    Implicit,
    /// A column that is written.
    Assignment,
    /// `::`
    Explicit,
}

impl Binder<'_> {
    /// The expression as a `to`; `None` if the place does not take a `from`.
    pub(super) fn coerced(
        &mut self,
        expr: Expr,
        from: Type,
        to: Type,
        context: Context,
    ) -> Result<Option<Expr>> {
        if from == to {
            return Ok(Some(expr));
        }
        if from.is_unknown() {
            return self.known(expr, to).map(Some);
        }
        if !allowed(from, to, context) {
            return Ok(None);
        }
        if let Expr::Const(cell) = &expr {
            return cast(cell.clone(), from, to).map(|cell| Some(Expr::Const(cell)));
        }
        // Both kinds of text are kept the same way.
        if from.is_string() && to.is_string() {
            return Ok(Some(expr));
        }
        Ok(Some(Expr::Cast(Box::new(expr), from, to)))
    }

    /// Gives a literal or parameter of unknown type the type that it is wanted to have.
    fn known(&mut self, expr: Expr, to: Type) -> Result<Expr> {
        match expr {
            Expr::Const(Cell::Text(text)) => from_text(to, &text).map(Expr::Const),
            Expr::Param(at) => {
                let ty = &mut self.params[at];
                match *ty {
                    known if known.is_unknown() => *ty = to,
                    known if known == to => {}
                    known => return Ok(Expr::Cast(Box::new(Expr::Param(at)), known, to)),
                }
                Ok(Expr::Param(at))
            }
            null @ Expr::Const(_) => Ok(null),
            other => Ok(Expr::Cast(Box::new(other), Type::TEXT, to)),
        }
    }

    /// The expression with a type of its own: text, where nothing else is said.
    pub(super) fn settled(&mut self, (expr, ty): (Expr, Type)) -> Bound<Expr> {
        match ty.is_unknown() {
            true => Ok((self.known(expr, Type::TEXT)?, Type::TEXT)),
            false => Ok((expr, ty)),
        }
    }

    /// Two operands as one type; `None` if there is none that both are.
    pub(super) fn unified(
        &mut self,
        left: (Expr, Type),
        right: (Expr, Type),
    ) -> Result<Option<(Expr, Expr, Type)>> {
        let Some(ty) = common(left.1, right.1) else { return Ok(None) };
        let left = self.coerced(left.0, left.1, ty, Context::Implicit)?;
        let right = self.coerced(right.0, right.1, ty, Context::Implicit)?;
        Ok(left.zip(right).map(|(left, right)| (left, right, ty)))
    }

    /// The results of CASE, COALESCE and their kin as one type.
    ///
    /// # Errors
    /// 42804.
    pub(super) fn all_alike(&mut self, what: &str, all: Vec<(Expr, Type)>) -> Bound<Vec<Expr>> {
        let mut ty = Type::UNKNOWN;
        for (_, other) in &all {
            ty = common(ty, *other).ok_or_else(|| {
                let (a, b) = (ty.name(), other.name());
                PgError::new("42804", format!("{what} types {a} and {b} cannot be matched"))
            })?;
        }
        let ty = if ty.is_unknown() { Type::TEXT } else { ty };
        let mut alike = Vec::with_capacity(all.len());
        for (expr, from) in all {
            let expr = self.coerced(expr, from, ty, Context::Implicit)?;
            alike.push(expr.expect("the common type takes each of them"));
        }
        Ok((alike, ty))
    }

    /// The expression as a boolean.
    ///
    /// # Errors
    /// 42804.
    pub(super) fn condition(&mut self, what: &str, (expr, ty): (Expr, Type)) -> Result<Expr> {
        self.coerced(expr, ty, Type::BOOL, Context::Implicit)?.ok_or_else(|| {
            let ty = ty.name();
            PgError::new("42804", format!("argument of {what} must be type boolean, not type {ty}"))
        })
    }
}

/// The type that both can be without losing anything.
fn common(a: Type, b: Type) -> Option<Type> {
    match (a, b) {
        _ if a == b || b.is_unknown() => Some(a),
        _ if a.is_unknown() => Some(b),
        _ if a.is_string() && b.is_string() => Some(Type::TEXT),
        _ if a.is_number() && b.is_number() => Some(if rank(a) > rank(b) { a } else { b }),
        _ if a.array && b.array && Type::is_string(a.element()) && b.element().is_string() => {
            Some(Type::array_of(Scalar::Text))
        }
        _ => None,
    }
}

fn rank(ty: Type) -> u8 {
    match ty.scalar {
        Scalar::Int2 => 0,
        Scalar::Int4 => 1,
        Scalar::Int8 => 2,
        Scalar::Numeric => 3,
        _ => 4,
    }
}

fn allowed(from: Type, to: Type, context: Context) -> bool {
    if from.array || to.array {
        // To text and from it through the literal form; between arrays as between their elements.
        let elements = from.array && to.array;
        let text = (to.is_string() && context != Context::Implicit)
            || (from.is_string() && context == Context::Explicit);
        return (elements && allowed(from.element(), to.element(), context)) || text;
    }
    match context {
        _ if from == to || (from.is_string() && to.is_string()) => true,
        Context::Implicit => from.is_number() && to.is_number() && rank(from) <= rank(to),
        Context::Assignment => {
            (from.is_number() && to.is_number()) || (to.is_string() && from != Type::VOID)
        }
        Context::Explicit => {
            let booleans = [(Type::BOOL, Type::INT4), (Type::INT4, Type::BOOL)];
            let json = from == Type::JSONB && (to == Type::BOOL || to.is_number());
            (from.is_number() && to.is_number())
                || to.is_string()
                || from.is_string()
                || booleans.contains(&(from, to))
                || json
        }
    }
}
