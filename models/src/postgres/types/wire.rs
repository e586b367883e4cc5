//! Values in the binary format of the protocol: big-endian, as each type's send function has it.

use std::sync::Arc;

use super::time::Interval;
use super::{Array, Cell, Decimal, Float, Json, Scalar, Type};
use crate::postgres::error::{PgError, Result};

/// Appends the value; null is the caller's, as only a length of -1 tells it.
pub fn to_binary(cell: &Cell, out: &mut Vec<u8>) {
    match cell {
        Cell::Null | Cell::Void => {}
        Cell::Bool(value) => out.push(u8::from(*value)),
        Cell::Int2(n) => out.extend(n.to_be_bytes()),
        Cell::Int4(n) => out.extend(n.to_be_bytes()),
        Cell::Int8(n) => out.extend(n.to_be_bytes()),
        Cell::Float8(Float(n)) => out.extend(n.to_be_bytes()),
        Cell::Numeric(n) => numeric(n, out),
        Cell::Text(text) => out.extend(text.as_bytes()),
        Cell::Bytea(bytes) => out.extend(bytes.iter()),
        Cell::Jsonb(json) => {
            // The version of the format.
            out.push(1);
            out.extend(json.to_text().as_bytes());
        }
        Cell::Timestamptz(at) => out.extend(at.to_be_bytes()),
        Cell::Interval(interval) => {
            out.extend(interval.micros.to_be_bytes());
            out.extend(interval.days.to_be_bytes());
            out.extend(interval.months.to_be_bytes());
        }
        Cell::Array(items) => array(items, out),
    }
}

fn length(n: usize) -> [u8; 4] {
    i32::try_from(n).expect("a message is shorter than 2 GiB").to_be_bytes()
}

fn array(array: &Array, out: &mut Vec<u8>) {
    out.extend(length(array.dims.len()));
    out.extend(i32::from(array.items.iter().any(Cell::is_null)).to_be_bytes());
    out.extend(Type::of(array.element).oid().to_be_bytes());
    for dim in &array.dims {
        out.extend(length(*dim));
        // Arrays count from 1.
        out.extend(1_i32.to_be_bytes());
    }
    for item in &array.items {
        if item.is_null() {
            out.extend((-1_i32).to_be_bytes());
            continue;
        }
        let at = out.len();
        out.extend([0; 4]);
        to_binary(item, out);
        let written = length(out.len() - at - 4);
        out[at..at + 4].copy_from_slice(&written);
    }
}

/// Groups of four decimal digits: their count, the weight of the first, sign, digits shown.
fn numeric(n: &Decimal, out: &mut Vec<u8>) {
    let (negative, whole, fraction) = n.parts();
    let whole = if whole == "0" { "" } else { whole };
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let fraction = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let groups = |text: &str| -> Vec<i16> {
        let groups = text.as_bytes().chunks(4);
        groups.map(|group| group.iter().fold(0, |n, d| n * 10 + i16::from(d - b'0'))).collect()
    };
    let (mut digits, behind) = (groups(&whole), groups(&fraction));
    let mut weight = i32::try_from(digits.len()).expect("numerics have a limit") - 1;
    digits.extend(behind);
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..leading);
    weight -= i32::try_from(leading).expect("numerics have a limit");
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let weight = if digits.is_empty() { 0 } else { weight };
    let short = |n: usize| i16::try_from(n).expect("numerics have a limit").to_be_bytes();
    out.extend(short(digits.len()));
    out.extend(i16::try_from(weight).expect("numerics have a limit").to_be_bytes());
    out.extend(if negative { 0x4000_i16 } else { 0 }.to_be_bytes());
    out.extend(short(n.scale()));
    digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
}

/// Reads a value of a type.
///
/// # Errors
/// 22P03 where the bytes have another shape, 22021 for text that is no UTF-8.
pub fn from_binary(ty: Type, bytes: &[u8]) -> Result<Cell> {
    let wanted = usize::try_from(ty.size()).unwrap_or(0);
    let bad = || match bytes.len() < wanted {
        true => PgError::new("08P01", "insufficient data left in message"),
        false => PgError::new("22P03", format!("incorrect binary data format for {}", ty.name())),
    };
    if ty.array {
        return read_array(ty, bytes);
    }
    Ok(match ty.scalar {
        Scalar::Unknown | Scalar::Text | Scalar::Varchar => Cell::Text(utf8(bytes)?.into()),
        Scalar::Void => Cell::Void,
        Scalar::Bool => match bytes {
            [value] => Cell::Bool(*value != 0),
            _ => return Err(bad()),
        },
        Scalar::Int2 => Cell::Int2(i16::from_be_bytes(bytes.try_into().map_err(|_| bad())?)),
        Scalar::Int4 => Cell::Int4(i32::from_be_bytes(bytes.try_into().map_err(|_| bad())?)),
        Scalar::Int8 => Cell::Int8(i64::from_be_bytes(bytes.try_into().map_err(|_| bad())?)),
        Scalar::Float8 => {
            Cell::Float8(Float(f64::from_be_bytes(bytes.try_into().map_err(|_| bad())?)))
        }
        Scalar::Numeric => return Err(PgError::unsupported("numeric parameters in binary")),
        Scalar::Bytea => Cell::Bytea(bytes.into()),
        Scalar::Jsonb => match bytes {
            [1, text @ ..] => Cell::Jsonb(Arc::new(Json::parse(utf8(text)?)?)),
            _ => return Err(PgError::new("XX000", "unsupported jsonb version number")),
        },
        Scalar::Timestamptz => {
            Cell::Timestamptz(i64::from_be_bytes(bytes.try_into().map_err(|_| bad())?))
        }
        Scalar::Interval => {
            let mut rest = bytes;
            let micros = i64::from_be_bytes(take(&mut rest).ok_or_else(bad)?);
            let days = i32::from_be_bytes(take(&mut rest).ok_or_else(bad)?);
            let months = i32::from_be_bytes(take(&mut rest).ok_or_else(bad)?);
            Cell::Interval(Interval { months, days, micros })
        }
    })
}

/// Text from the client: UTF-8 without a zero byte.
///
/// # Errors
/// 22021.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    let wrong = |at: usize| {
        let shown: Vec<String> =
            bytes[at..].iter().take(1).map(|byte| format!("0x{byte:02x}")).collect();
        let shown = shown.join(" ");
        PgError::new("22021", format!("invalid byte sequence for encoding \"UTF8\": {shown}"))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| wrong(error.valid_up_to()))?;
    match text.find('\0') {
        Some(at) => Err(wrong(at)),
        None => Ok(text),
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(*head)
}

fn read_array(ty: Type, bytes: &[u8]) -> Result<Cell> {
    let bad = || PgError::new("22P03", "improper binary format in array");
    let mut rest = bytes;
    let dimensions = i32::from_be_bytes(take(&mut rest).ok_or_else(bad)?);
    let _has_nulls: [u8; 4] = take(&mut rest).ok_or_else(bad)?;
    let oid = u32::from_be_bytes(take(&mut rest).ok_or_else(bad)?);
    if oid != ty.element().oid() {
        return Err(PgError::new("42804", "wrong element type"));
    }
    if !(0..=6).contains(&dimensions) {
        return Err(bad());
    }
    let mut dims = Vec::new();
    for _ in 0..dimensions {
        let dim = i32::from_be_bytes(take(&mut rest).ok_or_else(bad)?);
        let _lower_bound: [u8; 4] = take(&mut rest).ok_or_else(bad)?;
        dims.push(usize::try_from(dim).map_err(|_| bad())?);
    }
    let count = if dims.is_empty() { 0 } else { dims.iter().product() };
    let mut items = Vec::new();
    for _ in 0..count {
        let length = i32::from_be_bytes(take(&mut rest).ok_or_else(bad)?);
        let Ok(length) = usize::try_from(length) else {
            items.push(Cell::Null);
            continue;
        };
        let (item, after) = rest.split_at_checked(length).ok_or_else(bad)?;
        items.push(from_binary(ty.element(), item)?);
        rest = after;
    }
    let dims = if items.is_empty() { Vec::new() } else { dims };
    Ok(Array { items, dims, element: ty.scalar }.into())
}
