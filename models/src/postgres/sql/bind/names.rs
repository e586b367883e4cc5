//! Names and types as the parser gives them.

use sqlparser::ast::{ArrayElemTypeDef, DataType, Ident, ObjectName, ObjectNamePart, TimezoneInfo};

use crate::postgres::error::{PgError, Result};
use crate::postgres::types::{Scalar, Type};

/// An identifier: folded to lower case unless quoted.
pub(super) fn ident(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The name of a table, function or setting; a schema in front must be the one that there is.
///
/// # Errors
/// 0A000 for other schemas.
pub(super) fn object(name: &ObjectName) -> Result<String> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(name) => Ok(ident(name)),
        other => Err(PgError::unsupported(format_args!("the name {other}"))),
    };
    match &name.0[..] {
        [only] => part(only),
        [schema, last] if matches!(&*part(schema)?, "public" | "pg_catalog") => part(last),
        _ => Err(PgError::unsupported(format_args!("the qualified name {name}"))),
    }
}

/// The type that a data type of SQL stands for.
///
/// # Errors
/// 42704 for a type that does not exist here.
pub(super) fn data_type(ty: &DataType) -> Result<Type> {
    let scalar = match ty {
        DataType::Bool | DataType::Boolean => Scalar::Bool,
        DataType::SmallInt(None) | DataType::Int2(None) => Scalar::Int2,
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => Scalar::Int4,
        DataType::BigInt(None) | DataType::Int8(None) => Scalar::Int8,
        DataType::DoublePrecision | DataType::Float8 => Scalar::Float8,
        DataType::Numeric(sqlparser::ast::ExactNumberInfo::None) => Scalar::Numeric,
        DataType::Text => Scalar::Text,
        DataType::Varchar(None) | DataType::CharacterVarying(None) => Scalar::Varchar,
        DataType::Bytea => Scalar::Bytea,
        DataType::JSONB => Scalar::Jsonb,
        DataType::Timestamp(None, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            Scalar::Timestamptz
        }
        DataType::Interval { fields: None, precision: None } => Scalar::Interval,
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            // Any number of brackets is the same type.
            return data_type(element).map(|element| Type { array: true, ..element });
        }
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let name = object(name)?;
            return named(&name).ok_or_else(|| {
                PgError::new("42704", format!("type \"{name}\" does not exist in the model"))
            });
        }
        other => return Err(PgError::unsupported(format_args!("the type {other}"))),
    };
    Ok(Type::of(scalar))
}

fn named(name: &str) -> Option<Type> {
    Some(Type::of(match name {
        "timestamptz" => Scalar::Timestamptz,
        "jsonb" => Scalar::Jsonb,
        "bytea" => Scalar::Bytea,
        "text" => Scalar::Text,
        "int4" => Scalar::Int4,
        "int8" => Scalar::Int8,
        "bool" => Scalar::Bool,
        "float8" => Scalar::Float8,
        _ => return None,
    }))
}
