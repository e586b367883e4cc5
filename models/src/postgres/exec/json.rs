//! The operators of jsonb.

use std::sync::Arc;

use crate::postgres::error::{PgError, Result};
use crate::postgres::types::{Array, Cell, Decimal, Json, to_text};

fn cell(json: Option<&Json>) -> Cell {
    json.map_or(Cell::Null, |json| Cell::Jsonb(Arc::new(json.clone())))
}

fn text(json: Option<&Json>) -> Cell {
    json.and_then(Json::as_text).map_or(Cell::Null, Cell::Text)
}

/// `->`, and `->>` with `as_text`.
pub fn get(json: &Json, at: &Cell, as_text: bool) -> Cell {
    let found = match at {
        Cell::Text(key) => json.key(key),
        at => at.as_int().and_then(|index| json.index(index)),
    };
    if as_text { text(found) } else { cell(found) }
}

/// `#>`, and `#>>` with `as_text`.
pub fn path(json: &Json, path: &Array, as_text: bool) -> Cell {
    let mut at = Some(json);
    for step in &path.items {
        let Some(step) = step.as_str() else { return Cell::Null };
        at = at.and_then(|json| match json {
            Json::Array(_) => step.parse().ok().and_then(|index| json.index(index)),
            other => other.key(step),
        });
    }
    if as_text { text(at) } else { cell(at) }
}

/// `?`: is there such a key, or such a string among the elements?
pub fn has_key(json: &Json, key: &str) -> bool {
    match json {
        Json::Object(_) => json.key(key).is_some(),
        Json::Array(items) => {
            items.iter().any(|item| matches!(item, Json::String(text) if &**text == key))
        }
        Json::String(text) => &**text == key,
        _ => false,
    }
}

/// `||`
pub fn merge(left: &Json, right: &Json) -> Json {
    match (left, right) {
        (Json::Object(a), Json::Object(b)) => Json::object([&a[..], b].concat()),
        (Json::Array(a), Json::Array(b)) => Json::Array([&a[..], b].concat()),
        (Json::Array(a), b) => Json::Array([&a[..], std::slice::from_ref(b)].concat()),
        (a, Json::Array(b)) => Json::Array([std::slice::from_ref(a), b].concat()),
        (a, b) => Json::Array(vec![a.clone(), b.clone()]),
    }
}

/// `-` with a key.
pub fn remove(json: &Json, key: &str) -> Result<Json> {
    match json {
        Json::Object(entries) => {
            let kept = entries.iter().filter(|(known, _)| &**known != key);
            Ok(Json::Object(kept.cloned().collect()))
        }
        Json::Array(items) => {
            let is_it = |item: &&Json| !matches!(item, Json::String(text) if &**text == key);
            Ok(Json::Array(items.iter().filter(is_it).cloned().collect()))
        }
        _ => Err(PgError::new("22023", "cannot delete from scalar")),
    }
}

pub fn type_of(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}

/// `to_jsonb`
pub fn from_cell(cell: &Cell) -> Json {
    match cell {
        Cell::Null => Json::Null,
        Cell::Bool(value) => Json::Bool(*value),
        Cell::Int2(_) | Cell::Int4(_) | Cell::Int8(_) => {
            Json::Number(Decimal::from_int(cell.as_int().unwrap_or_default().into()))
        }
        Cell::Numeric(n) => Json::Number(n.clone()),
        Cell::Float8(_) => match Decimal::parse(&to_text(cell)) {
            Some(n) => Json::Number(n),
            // NaN and the infinities.
            None => Json::String(to_text(cell).into()),
        },
        Cell::Jsonb(json) => (**json).clone(),
        Cell::Array(array) if array.dims.len() <= 1 => {
            Json::Array(array.items.iter().map(from_cell).collect())
        }
        other => Json::String(to_text(other).into()),
    }
}

/// `jsonb_build_object`
pub fn build_object(args: &[Cell]) -> Result<Json> {
    if args.len() % 2 == 1 {
        let message = "argument list must have even number of elements";
        return Err(PgError::new("22023", message));
    }
    let mut entries = Vec::new();
    for pair in args.chunks(2) {
        let key = match &pair[0] {
            Cell::Null => return Err(PgError::new("22004", "argument 1: key must not be null")),
            // Arguments come as jsonb; a key is the text of it.
            Cell::Jsonb(json) => json.as_text().unwrap_or_else(|| "null".into()),
            other => to_text(other).into(),
        };
        entries.push((key, from_cell(&pair[1])));
    }
    Ok(Json::object(entries))
}
