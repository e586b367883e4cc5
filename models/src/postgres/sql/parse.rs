//! Reading statements, each text once.
//!
//! Reading costs more than everything else about a small statement, and the text alone decides what
//! comes of it. So what has been read is kept for the whole OS process: a sweep runs the same few
//! statements in every seed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::postgres::error::{PgError, Result};

/// The statements of one text.
pub type Parsed = Arc<Vec<Statement>>;

/// Texts beyond this many are read again each time: programs that write values into their SQL would
/// fill the memory otherwise.
const KEPT: usize = 512;

static READ: Mutex<BTreeMap<String, Parsed>> = Mutex::new(BTreeMap::new());

/// The statements of a text.
///
/// # Errors
/// 42601.
pub fn parse(text: &str) -> Result<Parsed> {
    let known = READ.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
    if let Some(known) = known {
        return Ok(known);
    }
    let parsed = parse_once(text)?;
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if read.len() < KEPT {
        read.insert(text.to_owned(), parsed.clone());
    }
    Ok(parsed)
}

/// As [`parse`], of a text that will not come again, as there are values in it.
///
/// # Errors
/// 42601.
pub fn parse_once(text: &str) -> Result<Parsed> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, text)
        .map_err(|error| PgError::new("42601", format!("syntax error: {error}")))?;
    Ok(Arc::new(statements))
}
