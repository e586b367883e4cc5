//! Turning values of one type into another: `::`, and what contexts coerce by themselves.

use std::sync::Arc;

use super::{Array, Cell, Decimal, Float, Json, Scalar, Type, from_text, to_text};
use crate::postgres::error::{PgError, Result};

/// Casts a value to a type.
///
/// # Errors
/// 42846 where there is no such cast, 22P02 and 22003 where the value does not go.
pub fn cast(cell: Cell, from: Type, to: Type) -> Result<Cell> {
    if cell.is_null() || from == to {
        return Ok(cell);
    }
    if from.array && to.array {
        let Cell::Array(array) = &cell else { unreachable!("arrays are arrays") };
        let items = array.items.iter().cloned();
        let items = items.map(|item| cast(item, from.element(), to.element()));
        let (items, dims) = (items.collect::<Result<_>>()?, array.dims.clone());
        return Ok(Array { items, dims, element: to.scalar }.into());
    }
    match (&cell, to) {
        // A literal of unknown type reads as whatever it is wanted to be, bytea included; a text
        // that is cast to bytea reads by the same rules.
        (Cell::Text(text), _) => from_text(to, text),
        (_, to) if to.is_string() => Ok(Cell::Text(match &cell {
            Cell::Bool(value) => if *value { "true" } else { "false" }.into(),
            other => to_text(other).into(),
        })),
        (Cell::Int2(_) | Cell::Int4(_) | Cell::Int8(_), _) => {
            from_int(cell.as_int().expect("it is a whole number"), from, to)
        }
        (Cell::Float8(Float(n)), _) => from_float(*n, from, to),
        (Cell::Numeric(n), _) => from_decimal(n, from, to),
        (Cell::Bool(value), Type::INT4) => Ok(Cell::Int4(i32::from(*value))),
        (Cell::Jsonb(json), _) => from_json(json, from, to),
        _ => Err(no_cast(from, to)),
    }
}

fn no_cast(from: Type, to: Type) -> PgError {
    PgError::new("42846", format!("cannot cast type {} to {}", from.name(), to.name()))
}

fn from_int(n: i64, from: Type, to: Type) -> Result<Cell> {
    let out = || PgError::new("22003", format!("{} out of range", to.name()));
    Ok(match to.scalar {
        _ if to.array => return Err(no_cast(from, to)),
        Scalar::Int2 => Cell::Int2(n.try_into().map_err(|_| out())?),
        Scalar::Int4 => Cell::Int4(n.try_into().map_err(|_| out())?),
        Scalar::Int8 => Cell::Int8(n),
        Scalar::Float8 => Cell::Float8(Float(n as f64)),
        Scalar::Numeric => Cell::Numeric(Decimal::from_int(n.into())),
        Scalar::Bool if from == Type::INT4 => Cell::Bool(n != 0),
        _ => return Err(no_cast(from, to)),
    })
}

/// To whole numbers halves go to the even one, as in the server.
fn from_float(n: f64, from: Type, to: Type) -> Result<Cell> {
    let out = || PgError::new("22003", format!("{} out of range", to.name()));
    if to.is_integer() {
        let whole = n.round_ties_even();
        // 2^63 itself is out of range, and exact as a double.
        let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&whole);
        return if fits { from_int(whole as i64, Type::INT8, to) } else { Err(out()) };
    }
    match to {
        Type::NUMERIC => {
            let digits = Decimal::parse(&to_text(&Cell::Float8(Float(n)))).ok_or_else(out)?;
            Ok(Cell::Numeric(digits))
        }
        _ => Err(no_cast(from, to)),
    }
}

fn from_decimal(n: &Decimal, from: Type, to: Type) -> Result<Cell> {
    if to.is_integer() {
        let out = || PgError::new("22003", format!("{} out of range", to.name()));
        return from_int(n.to_int().ok_or_else(out)?, Type::INT8, to);
    }
    match to {
        Type::FLOAT8 => Ok(Cell::Float8(Float(n.to_float()))),
        _ => Err(no_cast(from, to)),
    }
}

/// A bare boolean or number comes out of jsonb; anything else is refused.
fn from_json(json: &Arc<Json>, from: Type, to: Type) -> Result<Cell> {
    let wrong = |kind: &str| {
        PgError::new("22023", format!("cannot cast jsonb {kind} to type {}", to.name()))
    };
    if to != Type::BOOL && !to.is_number() {
        return Err(no_cast(from, to));
    }
    match (&**json, to) {
        (Json::Bool(value), Type::BOOL) => Ok(Cell::Bool(*value)),
        (Json::Number(n), Type::NUMERIC) => Ok(Cell::Numeric(n.clone())),
        (Json::Number(n), to) if to.is_number() => from_decimal(n, Type::NUMERIC, to),
        (Json::Null, _) => Err(wrong("null")),
        (Json::String(_), _) => Err(wrong("string")),
        (Json::Bool(_), _) => Err(wrong("boolean")),
        (Json::Number(_), _) => Err(wrong("numeric")),
        (Json::Array(_), _) => Err(wrong("array")),
        (Json::Object(_), _) => Err(wrong("object")),
    }
}
