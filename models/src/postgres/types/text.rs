//! Values as text: what simple queries show, and what literals and text parameters are read from.

use std::sync::Arc;

use super::{Array, Cell, Decimal, Float, Json, Scalar, Type, bytea, time};
use crate::postgres::error::{PgError, Result};

/// The value as text; nothing for null, which the protocol marks by a length of -1.
pub fn to_text(cell: &Cell) -> String {
    match cell {
        Cell::Null | Cell::Void => String::new(),
        Cell::Bool(value) => if *value { "t" } else { "f" }.to_owned(),
        Cell::Int2(n) => n.to_string(),
        Cell::Int4(n) => n.to_string(),
        Cell::Int8(n) => n.to_string(),
        Cell::Float8(Float(n)) => float_to_text(*n),
        Cell::Numeric(n) => n.to_string(),
        Cell::Text(text) => text.to_string(),
        Cell::Bytea(bytes) => bytea::to_text(bytes),
        Cell::Jsonb(json) => json.to_text(),
        Cell::Timestamptz(at) => time::timestamptz_to_text(*at),
        Cell::Interval(interval) => time::interval_to_text(*interval),
        Cell::Array(array) => array.to_text(),
    }
}

/// The shortest digits that read back the same; an exponent below 1e-4 and from 1e15 on.
fn float_to_text(n: f64) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n < 0.0 { "-Infinity" } else { "Infinity" }.to_owned();
    }
    let scientific = format!("{n:e}");
    let (digits, exponent) = scientific.split_once('e').expect("{:e} writes an e");
    let exponent: i32 = exponent.parse().expect("{:e} writes a whole exponent");
    if (-4..15).contains(&exponent) || n == 0.0 {
        return format!("{n}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Reads a value of a type from its text.
///
/// # Errors
/// 22P02 and its kin for what is no such value, 22003 for a number out of range.
pub fn from_text(ty: Type, text: &str) -> Result<Cell> {
    if ty.array {
        return Ok(Array::from_text(ty.scalar, text)?.into());
    }
    let invalid = || {
        let name = ty.name();
        PgError::new("22P02", format!("invalid input syntax for type {name}: \"{text}\""))
    };
    Ok(match ty.scalar {
        Scalar::Unknown | Scalar::Text | Scalar::Varchar => Cell::Text(text.into()),
        Scalar::Void => Cell::Void,
        Scalar::Bool => Cell::Bool(bool_from_text(text).ok_or_else(invalid)?),
        Scalar::Int2 => Cell::Int2(integer(ty, text)?),
        Scalar::Int4 => Cell::Int4(integer(ty, text)?),
        Scalar::Int8 => Cell::Int8(integer(ty, text)?),
        Scalar::Float8 => Cell::Float8(Float(text.trim().parse().map_err(|_| invalid())?)),
        Scalar::Numeric => Cell::Numeric(Decimal::parse(text.trim()).ok_or_else(invalid)?),
        Scalar::Bytea => Cell::Bytea(bytea::from_text(text)?.into()),
        Scalar::Jsonb => Cell::Jsonb(Arc::new(Json::parse(text)?)),
        Scalar::Timestamptz => Cell::Timestamptz(time::timestamptz_from_text(text)?),
        Scalar::Interval => Cell::Interval(time::interval_from_text(text)?),
    })
}

/// Any beginning of a word that can mean nothing else.
fn bool_from_text(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || text == "1" {
        return Some(true);
    }
    let no = begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0";
    no.then_some(false)
}

fn integer<T: TryFrom<i128>>(ty: Type, text: &str) -> Result<T> {
    let name = ty.name();
    let digits = text.trim();
    let number: i128 = digits.parse().map_err(|_| {
        let body = digits.trim_start_matches(['+', '-']);
        match !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_digit()) {
            true => out_of_range(&name, text),
            false => {
                PgError::new("22P02", format!("invalid input syntax for type {name}: \"{text}\""))
            }
        }
    })?;
    T::try_from(number).map_err(|_| out_of_range(&name, text))
}

fn out_of_range(name: &str, text: &str) -> PgError {
    PgError::new("22003", format!("value \"{text}\" is out of range for type {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked with `select x::float8` on PostgreSQL 15.
    #[test]
    fn doubles_show_as_the_server_shows_them() {
        for (n, shown) in [
            (0.1, "0.1"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.0, "0"),
        ] {
            assert_eq!(float_to_text(n), shown);
        }
    }
}
