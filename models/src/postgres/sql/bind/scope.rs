//! The rows at hand while an expression is bound.

use sqlparser::ast::Ident;

use super::{Binder, Bound, names};
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::{Aggregate, Before, Expr, Field};
use crate::postgres::types::Type;

/// The rows of one query.
#[derive(Default)]
pub(super) struct Scope {
    pub items: Vec<Item>,
    pub with: Vec<With>,
    /// Collected while the parts of a SELECT are bound that may aggregate.
    pub aggregates: Option<Vec<Aggregate>>,
    /// Did an expression look further out than this query?
    pub looked_out: bool,
}

/// One item of FROM.
pub(super) struct Item {
    pub alias: String,
    pub columns: Vec<Field>,
    /// Hidden items are reached by their name only, never by a bare column or `*`.
    pub hidden: bool,
}

/// A part of WITH.
pub(super) struct With {
    pub name: String,
    pub id: usize,
    /// `None` of a change that returns nothing.
    pub fields: Option<Vec<Field>>,
    pub before: Before,
}

impl Binder<'_> {
    pub(super) fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a query is being bound")
    }

    fn found(&mut self, scope: usize, item: usize, column: usize) -> (Expr, Type) {
        let up = self.scopes.len() - 1 - scope;
        for inner in &mut self.scopes[scope + 1..] {
            inner.looked_out = true;
        }
        let ty = self.scopes[scope].items[item].columns[column].ty;
        (Expr::column(up, item, column), ty)
    }

    /// A bare name: a column of the innermost query that has one of that name.
    ///
    /// # Errors
    /// 42703, 42702.
    pub(super) fn column(&mut self, name: &Ident) -> Bound<Expr> {
        let name = names::ident(name);
        for scope in (0..self.scopes.len()).rev() {
            let mut places = Vec::new();
            for (at, item) in self.scopes[scope].items.iter().enumerate() {
                let columns = item.columns.iter().enumerate().filter(|_| !item.hidden);
                let here = columns.filter(|(_, field)| field.name == name);
                places.extend(here.map(|(column, _)| (at, column)));
            }
            match places[..] {
                [] => continue,
                [(item, column)] => return Ok(self.found(scope, item, column)),
                _ => {
                    let message = format!("column reference \"{name}\" is ambiguous");
                    return Err(PgError::new("42702", message));
                }
            }
        }
        Err(PgError::new("42703", format!("column \"{name}\" does not exist")))
    }

    /// `table.column`
    ///
    /// # Errors
    /// 42P01, 42703.
    pub(super) fn qualified_column(&mut self, table: &Ident, name: &Ident) -> Bound<Expr> {
        let (table, name) = (names::ident(table), names::ident(name));
        for scope in (0..self.scopes.len()).rev() {
            let items = &self.scopes[scope].items;
            let Some(item) = items.iter().position(|item| item.alias == table) else { continue };
            let found = items[item].columns.iter().position(|field| field.name == name);
            let missing = || PgError::new("42703", format!("column {table}.{name} does not exist"));
            return Ok(self.found(scope, item, found.ok_or_else(missing)?));
        }
        let message = format!("missing FROM-clause entry for table \"{table}\"");
        Err(PgError::new("42P01", message))
    }

    /// What `*` stands for, or `table.*`.
    ///
    /// # Errors
    /// 42P01 for a table that is not there.
    pub(super) fn all_columns(&mut self, of: Option<&str>) -> Result<Vec<(Expr, Field)>> {
        let items = &self.scope().items;
        let wanted = |item: &Item| match of {
            None => !item.hidden,
            Some(alias) => item.alias == alias,
        };
        let mut all = Vec::new();
        let mut any = false;
        for (at, item) in items.iter().enumerate().filter(|(_, item)| wanted(item)) {
            any = true;
            let columns = item.columns.iter().cloned().enumerate();
            all.extend(columns.map(|(column, field)| (Expr::column(0, at, column), field)));
        }
        match (any, of) {
            (true, _) => Ok(all),
            (false, None) => {
                Err(PgError::new("42601", "SELECT * with no tables specified is not valid"))
            }
            (false, Some(alias)) => {
                let message = format!("missing FROM-clause entry for table \"{alias}\"");
                Err(PgError::new("42P01", message))
            }
        }
    }
}
