//! Computing with numbers, moments and spans.

use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::Arithmetic;
use crate::postgres::types::{Cell, Float, Interval, add};

fn out_of_range(what: &str) -> PgError {
    PgError::new("22003", format!("{what} out of range"))
}

fn by_zero() -> PgError {
    PgError::new("22012", "division by zero")
}

/// Both have the types that binding gave them; null in, null out.
pub fn compute(op: Arithmetic, left: Cell, right: Cell) -> Result<Cell> {
    use Arithmetic::{Add, Divide, Multiply, Subtract};
    Ok(match (left, op, right) {
        (Cell::Null, _, _) | (_, _, Cell::Null) => Cell::Null,
        (Cell::Int2(a), op, Cell::Int2(b)) => {
            let n = integer(op, a.into(), b.into(), "smallint")?;
            Cell::Int2(n.try_into().map_err(|_| out_of_range("smallint"))?)
        }
        (Cell::Int4(a), op, Cell::Int4(b)) => {
            let n = integer(op, a.into(), b.into(), "integer")?;
            Cell::Int4(n.try_into().map_err(|_| out_of_range("integer"))?)
        }
        (Cell::Int8(a), op, Cell::Int8(b)) => Cell::Int8(integer(op, a, b, "bigint")?),
        (Cell::Float8(Float(a)), op, Cell::Float8(Float(b))) => {
            Cell::Float8(Float(float(op, a, b)?))
        }
        (Cell::Timestamptz(at), Add, Cell::Interval(span))
        | (Cell::Interval(span), Add, Cell::Timestamptz(at)) => moved(at, span)?,
        (Cell::Timestamptz(at), Subtract, Cell::Interval(span)) => moved(at, negative(span))?,
        (Cell::Timestamptz(a), Subtract, Cell::Timestamptz(b)) => {
            // Whole days are told apart from the rest, as the server tells them.
            const DAY: i64 = 86_400_000_000;
            let all = a.checked_sub(b).ok_or_else(|| out_of_range("interval"))?;
            let days = i32::try_from(all / DAY).map_err(|_| out_of_range("interval"))?;
            Cell::Interval(Interval { months: 0, days, micros: all % DAY })
        }
        (Cell::Interval(a), Add, Cell::Interval(b)) => sum(a, b)?,
        (Cell::Interval(a), Subtract, Cell::Interval(b)) => sum(a, negative(b))?,
        (Cell::Interval(span), Multiply, Cell::Float8(Float(by)))
        | (Cell::Float8(Float(by)), Multiply, Cell::Interval(span)) => scaled(span, by)?,
        (Cell::Interval(_), Divide, Cell::Float8(Float(0.0))) => return Err(by_zero()),
        (Cell::Interval(span), Divide, Cell::Float8(Float(by))) => scaled(span, 1.0 / by)?,
        _ => return Err(PgError::unsupported("this arithmetic")),
    })
}

fn integer(op: Arithmetic, a: i64, b: i64, what: &str) -> Result<i64> {
    let result = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err(by_zero()),
        Arithmetic::Divide => a.checked_div(b),
        Arithmetic::Modulo => Some(a.checked_rem(b).unwrap_or(0)),
    };
    result.ok_or_else(|| out_of_range(what))
}

fn float(op: Arithmetic, a: f64, b: f64) -> Result<f64> {
    let result = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide if b == 0.0 => return Err(by_zero()),
        Arithmetic::Divide => a / b,
        Arithmetic::Modulo => return Err(PgError::unsupported("the remainder of doubles")),
    };
    match result.is_infinite() && a.is_finite() && b.is_finite() {
        true => Err(PgError::new("22003", "value out of range: overflow")),
        false => Ok(result),
    }
}

fn moved(at: i64, span: Interval) -> Result<Cell> {
    add(at, span)
        .map(Cell::Timestamptz)
        .ok_or_else(|| PgError::new("22008", "timestamp out of range"))
}

fn negative(span: Interval) -> Interval {
    Interval { months: -span.months, days: -span.days, micros: -span.micros }
}

fn sum(a: Interval, b: Interval) -> Result<Cell> {
    let add = || {
        Some(Interval {
            months: a.months.checked_add(b.months)?,
            days: a.days.checked_add(b.days)?,
            micros: a.micros.checked_add(b.micros)?,
        })
    };
    add().map(Cell::Interval).ok_or_else(|| out_of_range("interval"))
}

/// Only spans without days and months: how the server carries fractions of those is its own.
fn scaled(span: Interval, by: f64) -> Result<Cell> {
    if span.months != 0 || span.days != 0 {
        return Err(PgError::unsupported("multiples of days and months"));
    }
    let micros = (span.micros as f64 * by).round_ties_even();
    match micros.abs() < 9e18 {
        true => Ok(Cell::Interval(Interval { micros: micros as i64, ..span })),
        false => Err(out_of_range("interval")),
    }
}

pub fn negate(cell: Cell) -> Result<Cell> {
    Ok(match cell {
        Cell::Int2(n) => Cell::Int2(n.checked_neg().ok_or_else(|| out_of_range("smallint"))?),
        Cell::Int4(n) => Cell::Int4(n.checked_neg().ok_or_else(|| out_of_range("integer"))?),
        Cell::Int8(n) => Cell::Int8(n.checked_neg().ok_or_else(|| out_of_range("bigint"))?),
        Cell::Float8(Float(n)) => Cell::Float8(Float(-n)),
        Cell::Interval(span) => Cell::Interval(negative(span)),
        Cell::Null => Cell::Null,
        _ => return Err(PgError::unsupported("this negation")),
    })
}
