//! Functions without an effect.

use std::sync::Arc;

use super::eval::Context;
use super::{hash, json};
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::Function;
use crate::postgres::types::{Array, Cell, Decimal, Interval, Scalar, Type, from_text, to_text};

pub fn has_effect(function: Function) -> bool {
    matches!(
        function,
        Function::Advisory(_)
            | Function::AdvisoryUnlockAll
            | Function::NextVal
            | Function::Sleep
            | Function::CancelBackend
            | Function::TerminateBackend
            | Function::SetConfig
    )
}

/// What tells itself as the server's version.
pub const VERSION: &str = "15.0 (durasim model)";

pub fn apply(ctx: &Context<'_>, function: Function, args: &[Cell]) -> Result<Cell> {
    use Function::*;
    // These have their own ways with null.
    match function {
        Greatest | Least => {
            let known = args.iter().filter(|cell| !cell.is_null());
            let found = if function == Least { known.min() } else { known.max() };
            return Ok(found.cloned().unwrap_or(Cell::Null));
        }
        ToJson => {
            return Ok(match &args[0] {
                Cell::Null => Cell::Null,
                cell => Cell::Jsonb(Arc::new(json::from_cell(cell))),
            });
        }
        JsonBuildObject => return Ok(Cell::Jsonb(Arc::new(json::build_object(args)?))),
        MakeInterval => return make_interval(args),
        ArrayAppend => return Ok(appended(&args[0], &args[1])),
        ArrayConcat => return Ok(joined(&args[0], &args[1])),
        _ if args.iter().any(Cell::is_null) => return Ok(Cell::Null),
        _ => {}
    }
    let text = |at: usize| args[at].as_str().unwrap_or_default();
    let bytes = |at: usize| args[at].as_bytes().unwrap_or_default();
    let int = |at: usize| args[at].as_int().unwrap_or_default();
    let number = |n: usize| Cell::Int4(i32::try_from(n).unwrap_or(i32::MAX));
    Ok(match function {
        Concat => Cell::text([text(0), text(1)].concat()),
        ConcatBytes => Cell::Bytea([bytes(0), bytes(1)].concat().into()),
        Length => number(text(0).chars().count()),
        OctetLength => number(args[0].as_bytes().map_or(text(0).len(), <[u8]>::len)),
        Lower => Cell::text(text(0).to_lowercase()),
        Upper => Cell::text(text(0).to_uppercase()),
        Substring => Cell::text(substring(text(0), int(1), args.get(2).map(|_| int(2)))?),
        Replace if text(1).is_empty() => args[0].clone(),
        Replace => Cell::text(text(0).replace(text(1), text(2))),
        Encode => Cell::text(match text(1) {
            "hex" => to_text(&args[0])[2..].to_owned(),
            other => return Err(PgError::unsupported(format_args!("the encoding {other}"))),
        }),
        Decode => match text(1) {
            "hex" => from_text(Type::BYTEA, &format!("\\x{}", text(0)))?,
            other => return Err(PgError::unsupported(format_args!("the encoding {other}"))),
        },
        HashText => Cell::Int4(hash::hashtext(text(0))),
        HashTextExtended => Cell::Int8(hash::hashtextextended(text(0), int(1))),
        JsonGet | JsonGetText | JsonPath | JsonPathText | JsonContains | JsonHasKey | JsonMerge
        | JsonRemove | JsonTypeOf | JsonArrayLength => return of_json(function, args),
        ArrayLength => match &args[0] {
            Cell::Array(array) => {
                let dim = usize::try_from(int(1)).ok().and_then(|n| n.checked_sub(1));
                dim.and_then(|dim| array.dims.get(dim)).map_or(Cell::Null, |n| number(*n))
            }
            _ => Cell::Null,
        },
        Cardinality => match &args[0] {
            Cell::Array(array) => number(array.items.len()),
            _ => Cell::Null,
        },
        ArrayElement => match &args[0] {
            Cell::Array(array) if array.dims.len() == 1 => {
                let at = usize::try_from(int(1)).ok().and_then(|n| n.checked_sub(1));
                at.and_then(|at| array.items.get(at)).cloned().unwrap_or(Cell::Null)
            }
            _ => Cell::Null,
        },
        Abs => match args[0] {
            Cell::Int4(n) => Cell::Int4(n.checked_abs().ok_or_else(out_of_range)?),
            _ => Cell::Int8(int(0).checked_abs().ok_or_else(out_of_range)?),
        },
        EpochOf => epoch(&args[0])?,
        Now => Cell::Timestamptz(ctx.facts.now),
        ClockTimestamp => Cell::Timestamptz(ctx.facts.clock),
        Version => Cell::text(format!("PostgreSQL {VERSION}")),
        CurrentSetting => match ctx.facts.settings.get(&text(0).to_lowercase()) {
            Ok(value) => Cell::text(value),
            Err(_) if args.get(1).is_some_and(Cell::is_true) => Cell::Null,
            Err(unknown) => return Err(unknown),
        },
        ToRegclass => {
            let known = ctx.store.relation_named(text(0), ctx.snapshot.own());
            if known { args[0].clone() } else { Cell::Null }
        }
        CurrentDatabase => Cell::Text(ctx.facts.database.clone()),
        CurrentUser => Cell::Text(ctx.facts.user.clone()),
        CurrentSchema => Cell::text("public"),
        BackendPid => Cell::Int4(ctx.facts.pid),
        TxidCurrent => Cell::Int8(i64::try_from(ctx.facts.xid).unwrap_or(i64::MAX)),
        other => return Err(PgError::unsupported(format_args!("the function {other:?}"))),
    })
}

fn out_of_range() -> PgError {
    PgError::new("22003", "integer out of range")
}

fn of_json(function: Function, args: &[Cell]) -> Result<Cell> {
    use Function::*;
    let Cell::Jsonb(left) = &args[0] else { return Ok(Cell::Null) };
    let stored = |json| Cell::Jsonb(Arc::new(json));
    Ok(match (function, args.get(1)) {
        (JsonGet, Some(at)) => json::get(left, at, false),
        (JsonGetText, Some(at)) => json::get(left, at, true),
        (JsonPath, Some(Cell::Array(path))) => json::path(left, path, false),
        (JsonPathText, Some(Cell::Array(path))) => json::path(left, path, true),
        (JsonContains, Some(Cell::Jsonb(right))) => Cell::Bool(left.contains(right)),
        (JsonMerge, Some(Cell::Jsonb(right))) => stored(json::merge(left, right)),
        (JsonHasKey, Some(Cell::Text(key))) => Cell::Bool(json::has_key(left, key)),
        (JsonRemove, Some(Cell::Text(key))) => stored(json::remove(left, key)?),
        (JsonTypeOf, _) => Cell::text(json::type_of(left)),
        (JsonArrayLength, _) => match &**left {
            crate::postgres::types::Json::Array(items) => {
                Cell::Int4(i32::try_from(items.len()).unwrap_or(i32::MAX))
            }
            _ => return Err(PgError::new("22023", "cannot get array length of a non-array")),
        },
        _ => Cell::Null,
    })
}

/// From the `from`th character on, counted from 1.
fn substring(text: &str, from: i64, length: Option<i64>) -> Result<String> {
    if length.is_some_and(|length| length < 0) {
        return Err(PgError::new("22011", "negative substring length not allowed"));
    }
    let end = length.map_or(i64::MAX, |length| from.saturating_add(length));
    let places = (1_i64..).zip(text.chars());
    Ok(places.filter(|(at, _)| *at >= from && *at < end).map(|(_, c)| c).collect())
}

fn make_interval(args: &[Cell]) -> Result<Cell> {
    let int = |at: usize| args[at].as_int().unwrap_or_default();
    let seconds = match &args[3] {
        Cell::Float8(seconds) => seconds.0,
        _ => 0.0,
    };
    let micros = (int(1) * 60 + int(2)) * 60_000_000 + (seconds * 1e6).round_ties_even() as i64;
    let days = i32::try_from(int(0)).map_err(|_| out_of_range())?;
    Ok(Cell::Interval(Interval { months: 0, days, micros }))
}

/// Seconds since 1970, or of a span, to the microsecond.
fn epoch(cell: &Cell) -> Result<Cell> {
    let micros = match cell {
        Cell::Timestamptz(at) => i128::from(*at) + i128::from(crate::postgres::types::EPOCH_2000),
        Cell::Interval(span) if span.months == 0 => {
            i128::from(span.days) * 86_400_000_000 + i128::from(span.micros)
        }
        _ => return Err(PgError::unsupported("the epoch of months")),
    };
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    let text = format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    Ok(Decimal::parse(&text).map_or(Cell::Null, Cell::Numeric))
}

fn appended(list: &Cell, item: &Cell) -> Cell {
    match list {
        Cell::Array(array) => {
            let items = [&array.items[..], std::slice::from_ref(item)].concat();
            Array::flat(array.element, items).into()
        }
        _ => Array::flat(scalar_of(item), vec![item.clone()]).into(),
    }
}

fn joined(left: &Cell, right: &Cell) -> Cell {
    match (left, right) {
        (Cell::Array(a), Cell::Array(b)) => {
            Array::flat(a.element, [&a.items[..], &b.items].concat()).into()
        }
        (Cell::Null, other) | (other, _) => other.clone(),
    }
}

fn scalar_of(cell: &Cell) -> Scalar {
    match cell {
        Cell::Int4(_) => Scalar::Int4,
        Cell::Int8(_) => Scalar::Int8,
        Cell::Bytea(_) => Scalar::Bytea,
        Cell::Bool(_) => Scalar::Bool,
        Cell::Jsonb(_) => Scalar::Jsonb,
        _ => Scalar::Text,
    }
}

/// LIKE: `%` is any text, `_` any character, a backslash makes the next character itself.
pub fn like(text: &str, pattern: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('%') => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| like(&text[at..], rest.as_str()))
        }
        Some(wanted) => {
            let mut chars = text.chars();
            let wanted = match wanted {
                '_' => None,
                '\\' => rest.next(),
                c => Some(c),
            };
            let Some(first) = chars.next() else { return false };
            wanted.is_none_or(|wanted| wanted == first) && like(chars.as_str(), rest.as_str())
        }
    }
}
