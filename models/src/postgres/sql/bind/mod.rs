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
mod title;

use sqlparser::ast::{self, SetExpr, Statement};

use super::{Action, Before, Field, Plan, SessionAction};
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::Mode;
use crate::postgres::store::{Store, Table, Xid};
use crate::postgres::types::Type;
use scope::Scope;

/// Binds one statement. `params` are the types that the client declared, the others are inferred;
/// without any there are no parameters at all, as in the simple protocol.
///
/// # Errors
/// 42P01, 42703, 42883 and their kin; 0A000 for what the model does not know.
pub fn bind(
    store: &Store,
    own: &[Xid],
    statement: &Statement,
    params: Option<&[Type]>,
) -> Result<Plan> {
    let mut binder = Binder::new(store, own, params);
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
    takes_params: bool,
    tables: Vec<(u32, Mode)>,
    /// The rows at hand, the innermost query's last.
    scopes: Vec<Scope>,
    queries: usize,
    /// Inside of CASE, COALESCE and their kin, where not everything is evaluated.
    conditional: bool,
    /// The WITH in front of the whole statement.
    with: Vec<Before>,
}

impl<'a> Binder<'a> {
    fn new(store: &'a Store, own: &'a [Xid], params: Option<&[Type]>) -> Binder<'a> {
        let takes_params = params.is_some();
        let params = params.unwrap_or_default().to_vec();
        Binder {
            takes_params,
            store,
            own,
            params,
            tables: Vec::new(),
            scopes: Vec::new(),
            queries: 0,
            conditional: false,
            with: Vec::new(),
        }
    }

    fn statement(&mut self, statement: &Statement) -> Result<(Action, Option<Vec<Field>>)> {
        match statement {
            Statement::Query(query) => {
                if let SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) =
                    &*query.body
                {
                    return self.with_in_front(query, |binder| binder.statement(inner));
                }
                if query.with.as_ref().is_some_and(query::changes_something) {
                    let bare = ast::Query { with: None, ..ast::Query::clone(query) };
                    return self.with_in_front(query, |binder| {
                        let (query, fields) = binder.query(&bare, true)?;
                        Ok((Action::Query(query), Some(fields)))
                    });
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

    /// `WITH ... UPDATE ...`, or a query with changes in its WITH.
    fn with_in_front(
        &mut self,
        query: &ast::Query,
        inner: impl FnOnce(&mut Self) -> Result<(Action, Option<Vec<Field>>)>,
    ) -> Result<(Action, Option<Vec<Field>>)> {
        let is_query = matches!(&*query.body, SetExpr::Select(_) | SetExpr::SetOperation { .. });
        let plain = query.order_by.is_none() && query.limit_clause.is_none();
        if !is_query && (!plain || !query.locks.is_empty()) {
            return Err(PgError::unsupported(format_args!("the statement {query}")));
        }
        self.scopes.push(Scope::default());
        let bound = query.with.as_ref().map_or(Ok(()), |with| self.with(with));
        let bound = bound.and_then(|()| inner(self));
        let scope = self.scopes.pop().expect("it was pushed above");
        self.with = scope.with.into_iter().map(|with| with.before).collect();
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
