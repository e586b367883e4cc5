//! Reading statements, each text once.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::postgres::error::{PgError, Result};

/// The statements of one text.
pub type Parsed = Arc<Vec<Statement>>;

/// Texts beyond this many are read again each time: programs that write values into their SQL would
/// fill the memory otherwise.
const KEPT: usize = 512;

/// What has been read so far.
#[derive(Debug, Default)]
pub struct Parses(BTreeMap<Arc<str>, Parsed>);

impl Parses {
    /// # Errors
    /// 42601.
    pub fn parse(&mut self, text: &str) -> Result<Parsed> {
        if let Some(known) = self.0.get(text) {
            return Ok(known.clone());
        }
        let statements = Parser::parse_sql(&PostgreSqlDialect {}, text)
            .map_err(|error| PgError::new("42601", format!("syntax error: {error}")))?;
        let parsed = Arc::new(statements);
        if self.0.len() < KEPT {
            self.0.insert(text.into(), parsed.clone());
        }
        Ok(parsed)
    }
}
