//! Binding whole queries: WITH, the body, ORDER BY, LIMIT, FOR UPDATE.

use sqlparser::ast::{
    Expr as Ast, LimitClause, LockClause, LockType, NonBlock, OrderBy, OrderByExpr, OrderByKind,
    OrderBySort, Query as QueryAst, SetExpr, SetOperator, SetQuantifier, Value,
};

use super::coerce::Context;
use super::scope::{Item, Scope, With};
use super::{Binder, Bound, names};
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::Mode;
use crate::postgres::sql::{Before, Body, Expr, Field, Query, RowLock, Sort, WaitPolicy};
use crate::postgres::types::Type;

impl Binder<'_> {
    /// With `settle`, results of unknown type become text; INSERT wants them as they are.
    pub(super) fn query(&mut self, ast: &QueryAst, settle: bool) -> Result<(Query, Vec<Field>)> {
        self.scopes.push(Scope::default());
        let bound = self.query_inside(ast, settle);
        let scope = self.scopes.pop().expect("it was pushed above");
        let (mut query, fields) = bound?;
        query.correlated |= scope.looked_out;
        Ok((query, fields))
    }

    fn query_inside(&mut self, ast: &QueryAst, settle: bool) -> Result<(Query, Vec<Field>)> {
        let plain = ast.fetch.is_none()
            && ast.for_clause.is_none()
            && ast.settings.is_none()
            && ast.format_clause.is_none()
            && ast.pipe_operators.is_empty();
        if !plain {
            return Err(PgError::unsupported(format_args!("the query {ast}")));
        }
        if let Some(with) = &ast.with {
            self.with(with)?;
        }
        let lock = self.row_lock(&ast.locks)?;
        let row_mode = if lock.is_some() { Mode::RowShare } else { Mode::AccessShare };
        let order = self.order_keys(ast.order_by.as_ref())?;
        let (body, order, fields, lock) = match &*ast.body {
            SetExpr::Select(select) => {
                let (body, order, fields) = self.select(select, order, row_mode, settle)?;
                let lock = match lock {
                    None => None,
                    Some((of, wait)) => Some(self.locked_item(&body, of.as_deref(), wait)?),
                };
                (body, order, fields, lock)
            }
            other => {
                if lock.is_some() {
                    let message = "FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT or VALUES";
                    return Err(PgError::new("0A000", message));
                }
                let (body, fields) = self.set_expr(other, settle)?;
                let order = self.order_of_result(order, &fields)?;
                (body, order, fields, None)
            }
        };
        let (limit, offset) = self.limits(ast.limit_clause.as_ref())?;
        let id = self.new_query();
        let with = self.taken_with()?;
        let query = Query { id, with, body, order, limit, offset, lock, correlated: false };
        Ok((query, fields))
    }

    /// The queries of this scope's WITH, which must not change anything.
    pub(super) fn taken_with(&mut self) -> Result<Vec<Query>> {
        let with = std::mem::take(&mut self.scope().with).into_iter().map(|with| with.before);
        let queries = with.map(|before| match before {
            Before::Query(query) => Ok(query),
            Before::Change(..) => Err(too_deep()),
        });
        queries.collect()
    }

    /// The parts of WITH.
    pub(super) fn with(&mut self, with: &sqlparser::ast::With) -> Result<()> {
        if with.recursive {
            return Err(PgError::unsupported("WITH RECURSIVE"));
        }
        for cte in &with.cte_tables {
            if cte.from.is_some() {
                return Err(PgError::unsupported(cte));
            }
            let (before, id, mut fields) = self.part_of_with(&cte.query)?;
            let renamed = cte.alias.columns.iter().map(|column| names::ident(&column.name));
            let known = fields.iter_mut().flatten();
            known.zip(renamed).for_each(|(field, name)| field.name = name);
            let name = names::ident(&cte.alias.name);
            self.scope().with.push(With { name, id, fields, before });
        }
        Ok(())
    }

    fn part_of_with(&mut self, ast: &QueryAst) -> Result<(Before, usize, Option<Vec<Field>>)> {
        if let SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) =
            &*ast.body
        {
            if self.scopes.len() > 1 {
                return Err(too_deep());
            }
            if ast.with.is_some() {
                return Err(PgError::unsupported("WITH inside a change of WITH"));
            }
            let (action, fields) = self.statement(change)?;
            let id = self.new_query();
            return Ok((Before::Change(id, action), id, fields));
        }
        let (query, fields) = self.query(ast, true)?;
        if query.correlated {
            return Err(PgError::unsupported("a query of WITH that depends on a row"));
        }
        let id = query.id;
        Ok((Before::Query(query), id, Some(fields)))
    }

    fn set_expr(&mut self, ast: &SetExpr, settle: bool) -> Result<(Body, Vec<Field>)> {
        match ast {
            SetExpr::Values(values) => {
                self.values(&values.rows.iter().map(|row| &row.content[..]).collect::<Vec<_>>())
            }
            SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } => {
                let all = match set_quantifier {
                    SetQuantifier::All => true,
                    SetQuantifier::None | SetQuantifier::Distinct => false,
                    other => return Err(PgError::unsupported(format_args!("UNION {other}"))),
                };
                let left = self.branch(left)?;
                let right = self.branch(right)?;
                self.union(left, right, all)
            }
            SetExpr::Query(query) => {
                let (query, fields) = self.query(query, settle)?;
                let all = true;
                let empty = Query {
                    id: self.new_query(),
                    body: Body::Values(Vec::new()),
                    order: Vec::new(),
                    with: Vec::new(),
                    limit: None,
                    offset: None,
                    lock: None,
                    correlated: false,
                };
                Ok((Body::Union { left: Box::new(query), right: Box::new(empty), all }, fields))
            }
            other => Err(PgError::unsupported(format_args!("the query {other}"))),
        }
    }

    /// One side of UNION, as a query of its own.
    fn branch(&mut self, ast: &SetExpr) -> Result<(Query, Vec<Field>)> {
        self.scopes.push(Scope::default());
        let bound = match ast {
            SetExpr::Select(select) => self
                .select(select, Vec::new(), Mode::AccessShare, false)
                .map(|(body, _, fields)| (body, fields)),
            other => self.set_expr(other, false),
        };
        let scope = self.scopes.pop().expect("it was pushed above");
        let (body, fields) = bound?;
        let query = Query {
            id: self.new_query(),
            with: Vec::new(),
            body,
            order: Vec::new(),
            limit: None,
            offset: None,
            lock: None,
            correlated: scope.looked_out,
        };
        Ok((query, fields))
    }

    /// Columns of both sides get one type each; names are those of the left side.
    fn union(
        &mut self,
        (mut left, mut fields): (Query, Vec<Field>),
        (mut right, others): (Query, Vec<Field>),
        all: bool,
    ) -> Result<(Body, Vec<Field>)> {
        if fields.len() != others.len() {
            let message = "each UNION query must have the same number of columns";
            return Err(PgError::new("42601", message));
        }
        for (column, field) in fields.iter_mut().enumerate() {
            let null = || Expr::Const(crate::postgres::types::Cell::Null);
            let sides = vec![(null(), field.ty), (null(), others[column].ty)];
            let (_, ty) = self.all_alike("UNION", sides)?;
            self.retype(&mut left, column, field.ty, ty)?;
            self.retype(&mut right, column, others[column].ty, ty)?;
            field.ty = ty;
            field.origin = (0, 0);
        }
        Ok((Body::Union { left: Box::new(left), right: Box::new(right), all }, fields))
    }

    /// Makes one column of a bound query another type.
    pub(super) fn retype(
        &mut self,
        query: &mut Query,
        column: usize,
        from: Type,
        to: Type,
    ) -> Result<()> {
        let one = |binder: &mut Self, expr: &mut Expr| -> Result<()> {
            let whole = std::mem::replace(expr, Expr::Aggregate(0));
            let coerced = binder.coerced(whole, from, to, Context::Assignment)?;
            let refused = || {
                let (from, to) = (from.name(), to.name());
                PgError::new("42804", format!("a column is of type {from}, where {to} is wanted"))
            };
            *expr = coerced.ok_or_else(refused)?;
            Ok(())
        };
        match &mut query.body {
            Body::Select(select) => one(self, &mut select.output[column]),
            Body::Values(rows) => rows.iter_mut().try_for_each(|row| one(self, &mut row[column])),
            Body::Union { left, right, .. } => {
                self.retype(left, column, from, to)?;
                self.retype(right, column, from, to)
            }
        }
    }

    /// VALUES: each column gets one type.
    pub(super) fn values(&mut self, rows: &[&[Ast]]) -> Result<(Body, Vec<Field>)> {
        let mut bound: Vec<Vec<(Expr, Type)>> = Vec::new();
        for row in rows {
            bound.push(row.iter().map(|expr| self.expr(expr)).collect::<Result<_>>()?);
        }
        let width = bound.first().map_or(0, Vec::len);
        if bound.iter().any(|row| row.len() != width) {
            return Err(PgError::new("42601", "VALUES lists must all be the same length"));
        }
        let mut out: Vec<Vec<Expr>> = bound.iter().map(|_| Vec::new()).collect();
        let mut fields = Vec::new();
        for column in 0..width {
            let all = bound.iter().map(|row| row[column].clone()).collect();
            let (all, ty) = self.all_alike("VALUES", all)?;
            out.iter_mut().zip(all).for_each(|(row, expr)| row.push(expr));
            let name = format!("column{}", column + 1);
            fields.push(Field { name, ty, origin: (0, 0) });
        }
        Ok((Body::Values(out), fields))
    }

    fn order_keys<'q>(&mut self, order: Option<&'q OrderBy>) -> Result<Vec<&'q OrderByExpr>> {
        match order.map(|order| (&order.kind, &order.interpolate)) {
            None => Ok(Vec::new()),
            Some((OrderByKind::Expressions(keys), None)) => Ok(keys.iter().collect()),
            _ => Err(PgError::unsupported("ORDER BY ALL")),
        }
    }

    /// One key of ORDER BY: a place in the result, a name of the result, or an expression.
    pub(super) fn sort(
        &mut self,
        ast: &OrderByExpr,
        output: Option<(&[Field], &[Expr])>,
    ) -> Result<Sort> {
        if ast.with_fill.is_some() {
            return Err(PgError::unsupported(format_args!("ORDER BY {ast}")));
        }
        let descending = match &ast.options.sort {
            None | Some(OrderBySort::Asc) => false,
            Some(OrderBySort::Desc) => true,
            Some(OrderBySort::Using(_)) => return Err(PgError::unsupported("ORDER BY USING")),
        };
        let nulls_first = ast.options.nulls_first.unwrap_or(descending);
        let named = output.and_then(|(fields, exprs)| match &ast.expr {
            Ast::Identifier(name) => {
                let name = names::ident(name);
                fields.iter().position(|field| field.name == name).map(|at| exprs[at].clone())
            }
            _ => None,
        });
        let placed = match (&ast.expr, output) {
            (Ast::Value(value), Some((_, exprs))) => match &value.value {
                Value::Number(digits, _) => {
                    let at = digits.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                    let expr = at.and_then(|at| exprs.get(at)).cloned();
                    let missing = || {
                        let message = format!("ORDER BY position {digits} is not in select list");
                        PgError::new("42P10", message)
                    };
                    Some(expr.ok_or_else(missing)?)
                }
                _ => None,
            },
            _ => None,
        };
        let key = match named.or(placed) {
            Some(key) => key,
            None => {
                let bound = self.expr(&ast.expr)?;
                self.settled(bound)?.0
            }
        };
        Ok(Sort { key, descending, nulls_first })
    }

    /// ORDER BY over a UNION or VALUES, which has nothing but its columns.
    fn order_of_result(&mut self, order: Vec<&OrderByExpr>, fields: &[Field]) -> Result<Vec<Sort>> {
        let columns = (0..fields.len()).map(|column| Expr::column(0, 0, column));
        let columns: Vec<Expr> = columns.collect();
        let item = Item { alias: String::new(), columns: fields.to_vec(), hidden: false };
        self.scopes.push(Scope { items: vec![item], ..Scope::default() });
        let keys = order.into_iter().map(|key| self.sort(key, Some((fields, &columns))));
        let keys = keys.collect();
        self.scopes.pop();
        keys
    }

    fn limits(&mut self, clause: Option<&LimitClause>) -> Result<(Option<Expr>, Option<Expr>)> {
        let (limit, offset) = match clause {
            None => return Ok((None, None)),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(other) => return Err(PgError::unsupported(format_args!("{other}"))),
        };
        // No column may stand there, and no aggregate.
        let hidden = std::mem::take(&mut self.scope().items);
        let mut count = |ast: Option<&Ast>| -> Result<Option<Expr>> {
            let Some(ast) = ast else { return Ok(None) };
            let (expr, ty): (Expr, Type) = self.expr(ast)?;
            let coerced = self.coerced(expr, ty, Type::INT8, Context::Implicit)?;
            let wrong = || PgError::new("42804", "argument of LIMIT must be type bigint");
            coerced.ok_or_else(wrong).map(Some)
        };
        let both = count(limit).and_then(|limit| Ok((limit, count(offset)?)));
        self.scope().items = hidden;
        both
    }

    fn row_lock(&mut self, locks: &[LockClause]) -> Result<Option<(Option<String>, WaitPolicy)>> {
        let lock = match locks {
            [] => return Ok(None),
            [one] => one,
            _ => return Err(PgError::unsupported("several FOR UPDATE clauses")),
        };
        if lock.lock_type != LockType::Update {
            return Err(PgError::unsupported("FOR SHARE"));
        }
        let wait = match lock.nonblock {
            None => WaitPolicy::Block,
            Some(NonBlock::Nowait) => WaitPolicy::Error,
            Some(NonBlock::SkipLocked) => WaitPolicy::Skip,
        };
        let of = lock.of.as_ref().map(names::object).transpose()?;
        Ok(Some((of, wait)))
    }

    fn locked_item(&mut self, body: &Body, of: Option<&str>, wait: WaitPolicy) -> Result<RowLock> {
        let Body::Select(select) = body else { unreachable!("only SELECT comes here") };
        let grouped = select.group.is_some() || select.distinct;
        if grouped {
            let message =
                "FOR UPDATE is not allowed with GROUP BY, DISTINCT or aggregate functions";
            return Err(PgError::new("0A000", message));
        }
        let items = &self.scope().items;
        let item = match of {
            None => None,
            Some(name) => {
                let found = items.iter().position(|item| item.alias == name);
                let message =
                    || format!("relation \"{name}\" in FOR UPDATE clause not found in FROM clause");
                Some(found.ok_or_else(|| PgError::new("42P01", message()))?)
            }
        };
        Ok(RowLock { item, wait })
    }

    /// An expression of its own, with no row at hand.
    pub(super) fn constant(&mut self, ast: &Ast) -> Bound<Expr> {
        self.scopes.push(Scope::default());
        let bound = self.expr(ast);
        self.scopes.pop();
        bound
    }
}

fn too_deep() -> PgError {
    let message = "WITH clause containing a data-modifying statement must be at the top level";
    PgError::new("0A000", message)
}

/// Is there an INSERT, UPDATE or DELETE in it?
pub(super) fn changes_something(with: &sqlparser::ast::With) -> bool {
    with.cte_tables.iter().any(|cte| {
        matches!(&*cte.query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_))
    })
}
