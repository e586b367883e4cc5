//! The types that columns, parameters and results may have, and their values.

mod array;
mod bytea;
mod cast;
mod cell;
mod decimal;
mod json;
mod json_read;
mod text;
mod time;
mod wire;

pub use array::Array;
pub use cast::cast;
pub use cell::{Cell, Float, Row};
pub use decimal::Decimal;
pub use json::Json;
pub use text::{from_text, to_text};
pub use time::{EPOCH_2000, Interval, add};
pub use wire::{from_binary, to_binary, utf8};

/// A type without the brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scalar {
    /// A literal or parameter whose context has not said yet what it is.
    Unknown,
    Void,
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Varchar,
    Bytea,
    Jsonb,
    Timestamptz,
    Interval,
}

/// A type: a scalar, or an array of one (of any number of dimensions, as in the server).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Type {
    pub scalar: Scalar,
    pub array: bool,
}

/// A row of the server's catalog of types.
struct Entry {
    scalar: Scalar,
    /// What messages call it, and what the catalog does.
    name: &'static str,
    short: &'static str,
    oid: u32,
    array_oid: u32,
    /// In bytes; -1 where it varies.
    size: i16,
}

const CATALOG: [Entry; 14] = [
    entry(Scalar::Unknown, "unknown", "unknown", 705, 0, -2),
    entry(Scalar::Void, "void", "void", 2278, 0, 4),
    entry(Scalar::Bool, "boolean", "bool", 16, 1000, 1),
    entry(Scalar::Int2, "smallint", "int2", 21, 1005, 2),
    entry(Scalar::Int4, "integer", "int4", 23, 1007, 4),
    entry(Scalar::Int8, "bigint", "int8", 20, 1016, 8),
    entry(Scalar::Float8, "double precision", "float8", 701, 1022, 8),
    entry(Scalar::Numeric, "numeric", "numeric", 1700, 1231, -1),
    entry(Scalar::Text, "text", "text", 25, 1009, -1),
    entry(Scalar::Varchar, "character varying", "varchar", 1043, 1015, -1),
    entry(Scalar::Bytea, "bytea", "bytea", 17, 1001, -1),
    entry(Scalar::Jsonb, "jsonb", "jsonb", 3802, 3807, -1),
    entry(Scalar::Timestamptz, "timestamp with time zone", "timestamptz", 1184, 1185, 8),
    entry(Scalar::Interval, "interval", "interval", 1186, 1187, 16),
];

const fn entry(
    scalar: Scalar,
    name: &'static str,
    short: &'static str,
    oid: u32,
    array_oid: u32,
    size: i16,
) -> Entry {
    Entry { scalar, name, short, oid, array_oid, size }
}

impl Scalar {
    fn entry(self) -> &'static Entry {
        let entry = CATALOG.iter().find(|entry| entry.scalar == self);
        entry.expect("every scalar has its row in the catalog")
    }
}

impl Type {
    pub const UNKNOWN: Type = Type::of(Scalar::Unknown);
    pub const VOID: Type = Type::of(Scalar::Void);
    pub const BOOL: Type = Type::of(Scalar::Bool);
    pub const INT4: Type = Type::of(Scalar::Int4);
    pub const INT8: Type = Type::of(Scalar::Int8);
    pub const FLOAT8: Type = Type::of(Scalar::Float8);
    pub const NUMERIC: Type = Type::of(Scalar::Numeric);
    pub const TEXT: Type = Type::of(Scalar::Text);
    pub const BYTEA: Type = Type::of(Scalar::Bytea);
    pub const JSONB: Type = Type::of(Scalar::Jsonb);
    pub const TIMESTAMPTZ: Type = Type::of(Scalar::Timestamptz);
    pub const INTERVAL: Type = Type::of(Scalar::Interval);

    pub const fn of(scalar: Scalar) -> Type {
        Type { scalar, array: false }
    }

    pub const fn array_of(scalar: Scalar) -> Type {
        Type { scalar, array: true }
    }

    pub fn element(self) -> Type {
        Type::of(self.scalar)
    }

    pub fn is_unknown(self) -> bool {
        self == Type::UNKNOWN
    }

    /// A whole number.
    pub fn is_integer(self) -> bool {
        !self.array && matches!(self.scalar, Scalar::Int2 | Scalar::Int4 | Scalar::Int8)
    }

    pub fn is_number(self) -> bool {
        self.is_integer() || self == Type::FLOAT8 || self == Type::NUMERIC
    }

    pub fn is_string(self) -> bool {
        !self.array && matches!(self.scalar, Scalar::Text | Scalar::Varchar)
    }

    pub fn oid(self) -> u32 {
        let entry = self.scalar.entry();
        if self.array { entry.array_oid } else { entry.oid }
    }

    /// The type with this OID; `None` for one that the model does not know. 0 is unknown.
    pub fn from_oid(oid: u32) -> Option<Type> {
        if oid == 0 {
            return Some(Type::UNKNOWN);
        }
        CATALOG.iter().find_map(|entry| match oid {
            _ if oid == entry.oid => Some(Type::of(entry.scalar)),
            _ if oid == entry.array_oid => Some(Type::array_of(entry.scalar)),
            _ => None,
        })
    }

    /// What RowDescription calls the size of the type.
    pub fn size(self) -> i16 {
        if self.array { -1 } else { self.scalar.entry().size }
    }

    pub fn name(self) -> String {
        let name = self.scalar.entry().name;
        if self.array { format!("{name}[]") } else { name.to_owned() }
    }

    /// The catalog's name for the type, or for the elements of an array.
    pub fn short_name(self) -> &'static str {
        self.scalar.entry().short
    }
}
