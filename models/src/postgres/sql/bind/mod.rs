//! Binding: from a parsed statement to a plan, against the tables as they are.
//!
//! Types are resolved as the server does: a literal or parameter without a type takes the one that
//! its place wants, and is text where none does.

mod call;
mod coerce;
mod define;
mod expr;
mod from;
mod modify;
mod names;
mod operator;
mod place;
mod query;
mod scope;
mod select;
mod session;

use sqlparser::ast::{self, SetExpr, Statement};

use super::{Action, Field, Plan, Query, SessionAction};
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::Mode;
use crate::postgres::store::{Store, Table, Xid};
use crate::postgres::types::Type;
use scope::Scope;

/// Binds one statement. `params` are the types that the client declared; the others are inferred.
///
/// # Errors
/// 42P01, 42703, 42883 and their kin; 0A000 for what the model does not know.
pub fn bind(store: &Store, own: &[Xid], statement: &Statement, params: &[Type]) -> Result<Plan> {
    let mut binder = Binder::new(store, own, params.to_vec());
    let (action, fields) = binder.statement(statement)?;
    let untyped = binder.params.iter().position(|ty| ty.is_unknown());
    if let Some(at) = untyped {
        let message = format!("could not determine data type of parameter ${}", at + 1);
        return Err(PgError::new("42P18", message));
    }
    let Binder { params, tables, with, .. } = binder;
    Ok(Plan { with, action, fields, params, tables, shape: store.shape })
}

/// What a statement does to the session, if that is all it does.
///
/// # Errors
/// 0A000.
pub fn session_action(
    statement: &Statement,
) -> Result<Option<(SessionAction, Option<Vec<Field>>)>> {
    session::session(statement)
}

type Bound<T> = Result<(T, Type)>;

struct Binder<'a> {
    store: &'a Store,
    own: &'a [Xid],
    params: Vec<Type>,
    tables: Vec<(u32, Mode)>,
    /// The rows at hand, the innermost query's last.
    scopes: Vec<Scope>,
    queries: usize,
    /// The queries of a WITH in front of the whole statement.
    with: Vec<Query>,
}

impl<'a> Binder<'a> {
    fn new(store: &'a Store, own: &'a [Xid], params: Vec<Type>) -> Binder<'a> {
        Binder {
            store,
            own,
            params,
            tables: Vec::new(),
            scopes: Vec::new(),
            queries: 0,
            with: Vec::new(),
        }
    }

    fn statement(&mut self, statement: &Statement) -> Result<(Action, Option<Vec<Field>>)> {
        match statement {
            Statement::Query(query) => {
                if let SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) =
                    &*query.body
                {
                    return self.with_in_front(query, inner);
                }
                let (query, fields) = self.query(query, true)?;
                Ok((Action::Query(query), Some(fields)))
            }
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            other => match session::session(other)? {
                Some((action, fields)) => Ok((Action::Session(action), fields)),
                None => self.define(other).map(|action| (action, None)),
            },
        }
    }

    /// `WITH ... UPDATE ...`
    fn with_in_front(
        &mut self,
        query: &ast::Query,
        inner: &Statement,
    ) -> Result<(Action, Option<Vec<Field>>)> {
        let plain = query.order_by.is_none() && query.limit_clause.is_none();
        if !plain || !query.locks.is_empty() {
            return Err(PgError::unsupported(format_args!("the statement {query}")));
        }
        self.scopes.push(Scope::default());
        let bound = query.with.as_ref().map_or(Ok(()), |with| self.with(with));
        let bound = bound.and_then(|()| self.statement(inner));
        let scope = self.scopes.pop().expect("it was pushed above");
        self.with = scope.with.into_iter().map(|with| with.query).collect();
        bound
    }

    /// The table of this name, which the statement locks in `mode`.
    ///
    /// # Errors
    /// 42P01.
    fn table(&mut self, name: &str, mode: Mode) -> Result<&'a Table> {
        let found = self.store.find(name, self.own);
        let missing = || PgError::new("42P01", format!("relation \"{name}\" does not exist"));
        let table = found.ok_or_else(missing)?;
        match self.tables.iter_mut().find(|(oid, _)| *oid == table.oid) {
            Some((_, known)) => *known = mode.max(*known),
            None => self.tables.push((table.oid, mode)),
        }
        Ok(table)
    }

    fn new_query(&mut self) -> usize {
        self.queries += 1;
        self.queries
    }
}
