//! One value, in a row or on its way to one.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Array, Decimal, Interval, Json};

/// A value of any of the types, or null. Cells of one type compare as the server sorts them, with
/// collation "C" for text; null comes first here, and whoever sorts puts it where it belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    Null,
    /// What a function without a result gives.
    Void,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float8(Float),
    Numeric(Decimal),
    Text(Arc<str>),
    Bytea(Arc<[u8]>),
    Jsonb(Arc<Json>),
    /// Microseconds since the beginning of the year 2000, UTC.
    Timestamptz(i64),
    Interval(Interval),
    Array(Arc<Array>),
}

/// The cells of one row. Versions of a row, results and snapshots share them.
pub type Row = Arc<[Cell]>;

impl Cell {
    pub fn text(text: impl Into<Arc<str>>) -> Cell {
        Cell::Text(text.into())
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Cell::Null)
    }

    /// Is it the boolean true? Null is not.
    pub fn is_true(&self) -> bool {
        matches!(self, Cell::Bool(true))
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Cell::Bytea(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A whole number of any size.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Cell::Int2(n) => Some(i64::from(*n)),
            Cell::Int4(n) => Some(i64::from(*n)),
            Cell::Int8(n) => Some(*n),
            _ => None,
        }
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Bool(value)
    }
}

/// A double as the server orders it: NaN equals itself and is above everything, and -0 is 0.
#[derive(Debug, Clone, Copy)]
pub struct Float(pub f64);

impl Ord for Float {
    fn cmp(&self, other: &Float) -> Ordering {
        match (self.0.is_nan(), other.0.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.0.partial_cmp(&other.0).expect("neither is NaN"),
        }
    }
}

impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Float) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Float) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Float {}
