//! Arrays: any number of dimensions, their elements in one list.

use std::sync::Arc;

use super::{Cell, Scalar, Type, from_text, to_text};
use crate::postgres::error::{PgError, Result};

/// Elements in row-major order. An empty array has no dimensions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Array {
    pub items: Vec<Cell>,
    pub dims: Vec<usize>,
    pub element: Scalar,
}

impl Array {
    pub fn flat(element: Scalar, items: Vec<Cell>) -> Array {
        let dims = if items.is_empty() { Vec::new() } else { vec![items.len()] };
        Array { items, dims, element }
    }

    /// An array whose elements are arrays of one shape: one dimension more.
    ///
    /// # Errors
    /// 2202E if shapes differ, 22004 if one is null.
    pub fn stacked(element: Scalar, parts: &[Cell]) -> Result<Array> {
        let mut dims: Option<&[usize]> = None;
        let mut items = Vec::new();
        for part in parts {
            let Cell::Array(part) = part else {
                return Err(PgError::new("22004", "cannot accumulate null arrays"));
            };
            if *dims.get_or_insert(&part.dims) != part.dims {
                return Err(PgError::new(
                    "2202E",
                    "cannot accumulate arrays of different dimensionality",
                ));
            }
            items.extend(part.items.iter().cloned());
        }
        match dims {
            None => Ok(Array::flat(element, items)),
            Some([]) => Err(PgError::new("2202E", "cannot accumulate empty arrays")),
            Some(inner) => {
                let dims = [&[parts.len()], inner].concat();
                Ok(Array { items, dims, element })
            }
        }
    }

    /// `{1,2,NULL}`, nested by dimension.
    pub fn to_text(&self) -> String {
        if self.dims.is_empty() {
            return "{}".to_owned();
        }
        let mut out = String::new();
        let mut items = self.items.iter();
        write_level(&mut out, &self.dims, &mut items);
        out
    }

    /// Reads what [`Array::to_text`] writes.
    pub fn from_text(element: Scalar, text: &str) -> Result<Array> {
        let mut reader = Reader { element, text, rest: text.trim(), items: Vec::new() };
        let dims = reader.level()?;
        if !reader.rest.trim().is_empty() {
            return Err(reader.malformed());
        }
        let dims = if reader.items.is_empty() { Vec::new() } else { dims };
        Ok(Array { items: reader.items, dims, element })
    }
}

fn write_level(out: &mut String, dims: &[usize], items: &mut std::slice::Iter<'_, Cell>) {
    out.push('{');
    for i in 0..dims[0] {
        if i > 0 {
            out.push(',');
        }
        match &dims[1..] {
            [] => write_item(out, items.next().expect("dimensions count the elements")),
            inner => write_level(out, inner, items),
        }
    }
    out.push('}');
}

fn write_item(out: &mut String, item: &Cell) {
    if item.is_null() {
        out.push_str("NULL");
        return;
    }
    let text = to_text(item);
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace();
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(special) {
        out.push_str(&text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

struct Reader<'a> {
    element: Scalar,
    text: &'a str,
    rest: &'a str,
    items: Vec<Cell>,
}

impl Reader<'_> {
    fn malformed(&self) -> PgError {
        PgError::new("22P02", format!("malformed array literal: \"{}\"", self.text))
    }

    fn eat(&mut self, c: char) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(c) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    fn level(&mut self) -> Result<Vec<usize>> {
        if !self.eat('{') {
            return Err(self.malformed());
        }
        let (mut count, mut inner): (usize, Option<Vec<usize>>) = (0, None);
        if self.eat('}') {
            return Ok(vec![0]);
        }
        loop {
            let nested = self.rest.trim_start().starts_with('{');
            let dims = if nested { self.level()? } else { self.item()? };
            if *inner.get_or_insert_with(|| dims.clone()) != dims {
                return Err(self.malformed());
            }
            count += 1;
            if self.eat('}') {
                return Ok([vec![count], inner.unwrap_or_default()].concat());
            }
            if !self.eat(',') {
                return Err(self.malformed());
            }
        }
    }

    fn item(&mut self) -> Result<Vec<usize>> {
        let quoted = self.eat('"');
        let mut word = String::new();
        let mut chars = if quoted { self.rest } else { self.rest.trim_start() }.chars();
        loop {
            let before = chars.as_str();
            match chars.next() {
                Some('\\') => word.push(chars.next().ok_or_else(|| self.malformed())?),
                Some('"') if quoted => break,
                Some(',' | '}') if !quoted => {
                    chars = before.chars();
                    break;
                }
                Some('{' | '"') if !quoted => return Err(self.malformed()),
                Some(c) => word.push(c),
                None => return Err(self.malformed()),
            }
        }
        self.rest = chars.as_str();
        let word = if quoted { &word[..] } else { word.trim_end() };
        if word.is_empty() && !quoted {
            return Err(self.malformed());
        }
        let null = !quoted && word.eq_ignore_ascii_case("null");
        let cell = if null { Cell::Null } else { from_text(Type::of(self.element), word)? };
        self.items.push(cell);
        Ok(Vec::new())
    }
}

impl From<Array> for Cell {
    fn from(array: Array) -> Cell {
        Cell::Array(Arc::new(array))
    }
}
