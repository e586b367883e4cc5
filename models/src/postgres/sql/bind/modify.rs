//! Binding INSERT, UPDATE and DELETE.

use sqlparser::ast::{
    self, Assignment, AssignmentTarget, ConflictTarget, Expr as Ast, FromTable, OnConflictAction,
    OnInsert, SelectItem, SetExpr, TableObject, UpdateTableFromKind,
};

use super::coerce::Context;
use super::from::fields_of;
use super::scope::{Item, Scope};
use super::{Binder, names};
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::Mode;
use crate::postgres::sql::{
    self, Action, Body, Conflict, ConflictUpdate, Delete, Expr, Field, From, Insert, InsertSource,
    Query, Select, Update,
};
use crate::postgres::store::{Column, Table};
use crate::postgres::types::Type;

type Modified = Result<(Action, Option<Vec<Field>>)>;

fn missing_column(table: &Table, name: &str) -> PgError {
    let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
    PgError::new("42703", message)
}

impl Binder<'_> {
    /// The expression as a value of a column; `None` is DEFAULT.
    fn value(&mut self, ast: &Ast, column: &Column) -> Result<Option<Expr>> {
        if let Ast::Identifier(name) = ast
            && name.quote_style.is_none()
            && name.value.eq_ignore_ascii_case("default")
        {
            return Ok(None);
        }
        let (expr, ty) = self.expr(ast)?;
        self.assigned(expr, ty, column).map(Some)
    }

    fn assigned(&mut self, expr: Expr, ty: Type, column: &Column) -> Result<Expr> {
        let coerced = self.coerced(expr, ty, column.ty, Context::Assignment)?;
        coerced.ok_or_else(|| {
            let (name, wanted, ty) = (&column.name, column.ty.name(), ty.name());
            let message =
                format!("column \"{name}\" is of type {wanted} but expression is of type {ty}");
            PgError::new("42804", message)
        })
    }

    fn returning(
        &mut self,
        items: Option<&Vec<SelectItem>>,
    ) -> Result<(Vec<Expr>, Option<Vec<Field>>)> {
        let Some(items) = items else { return Ok((Vec::new(), None)) };
        let (output, fields) = self.output(items, true)?;
        Ok((output, Some(fields)))
    }

    pub(super) fn insert(&mut self, ast: &ast::Insert) -> Modified {
        let plain = ast.or.is_none()
            && !ast.ignore
            && !ast.by_name
            && !ast.overwrite
            && ast.assignments.is_empty()
            && ast.partitioned.is_none()
            && ast.after_columns.is_empty()
            && ast.overriding.is_none()
            && ast.output.is_none()
            && !ast.replace_into
            && ast.insert_alias.is_none()
            && ast.multi_table_insert_type.is_none();
        let TableObject::TableName(name) = &ast.table else {
            return Err(PgError::unsupported(format_args!("the statement {ast}")));
        };
        if !plain {
            return Err(PgError::unsupported(format_args!("the statement {ast}")));
        }
        let table = self.table(&names::object(name)?, Mode::RowExclusive)?;
        let alias = match &ast.table_alias {
            None => table.name.clone(),
            Some(alias) => names::ident(&alias.alias),
        };
        let columns = self.target_columns(table, &ast.columns)?;
        let source = self.source(table, &columns, ast.source.as_deref())?;
        let width = match &source {
            InsertSource::Query(query) => width(query),
            InsertSource::Values(rows) => rows.first().map_or(0, Vec::len),
            InsertSource::Defaults => 0,
        };
        let columns = columns[..width].to_vec();
        let stored = Item { alias, columns: fields_of(table), hidden: false };
        self.scopes.push(Scope { items: vec![stored], ..Scope::default() });
        let conflict = match &ast.on {
            None => Ok(None),
            Some(OnInsert::OnConflict(conflict)) => self.conflict(table, conflict).map(Some),
            Some(other) => Err(PgError::unsupported(format_args!("{other}"))),
        };
        let returning = self.returning(ast.returning.as_ref());
        self.scopes.pop();
        let (conflict, (returning, fields)) = (conflict?, returning?);
        let table = table.oid;
        let insert = Insert { table, columns, source, conflict, returning };
        Ok((Action::Insert(Box::new(insert)), fields))
    }

    fn target_columns(&self, table: &Table, named: &[ast::ObjectName]) -> Result<Vec<usize>> {
        if named.is_empty() {
            return Ok((0..table.columns.len()).collect());
        }
        let mut columns = Vec::new();
        for name in named {
            let name = names::object(name)?;
            let column = table.column(&name).ok_or_else(|| missing_column(table, &name))?;
            if columns.contains(&column) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(PgError::new("42701", message));
            }
            columns.push(column);
        }
        Ok(columns)
    }

    fn source(
        &mut self,
        table: &Table,
        columns: &[usize],
        ast: Option<&ast::Query>,
    ) -> Result<InsertSource> {
        let Some(ast) = ast else { return Ok(InsertSource::Defaults) };
        let check = |width: usize| match width.cmp(&columns.len()) {
            std::cmp::Ordering::Greater => {
                Err(PgError::new("42601", "INSERT has more expressions than target columns"))
            }
            _ => Ok(()),
        };
        if let (SetExpr::Values(values), None, None, None) =
            (&*ast.body, &ast.with, &ast.order_by, &ast.limit_clause)
        {
            let mut rows = Vec::new();
            self.scopes.push(Scope::default());
            for row in &values.rows {
                let row = &row.content;
                check(row.len())?;
                let fits = row.iter().zip(columns);
                let value =
                    |(expr, column): (&Ast, &usize)| self.value(expr, &table.columns[*column]);
                rows.push(fits.map(value).collect::<Result<Vec<_>>>()?);
            }
            self.scopes.pop();
            let width = rows.first().map_or(0, Vec::len);
            if rows.iter().any(|row| row.len() != width) {
                return Err(PgError::new("42601", "VALUES lists must all be the same length"));
            }
            return Ok(InsertSource::Values(rows));
        }
        let (mut query, fields) = self.query(ast, false)?;
        check(fields.len())?;
        for (at, (field, column)) in fields.iter().zip(columns).enumerate() {
            let column = &table.columns[*column];
            if field.ty != column.ty {
                self.assign_output(&mut query.body, at, field.ty, column)?;
            }
        }
        Ok(InsertSource::Query(query))
    }

    fn assign_output(
        &mut self,
        body: &mut Body,
        at: usize,
        ty: Type,
        column: &Column,
    ) -> Result<()> {
        let one = |binder: &mut Self, expr: &mut Expr| -> Result<()> {
            *expr = binder.assigned(expr.clone(), ty, column)?;
            Ok(())
        };
        match body {
            Body::Select(select) => one(self, &mut select.output[at]),
            Body::Values(rows) => rows.iter_mut().try_for_each(|row| one(self, &mut row[at])),
            Body::Union { left, right, .. } => {
                self.assign_output(&mut left.body, at, ty, column)?;
                self.assign_output(&mut right.body, at, ty, column)
            }
        }
    }

    fn conflict(&mut self, table: &Table, ast: &ast::OnConflict) -> Result<Conflict> {
        let index = match &ast.conflict_target {
            None => None,
            Some(ConflictTarget::Columns { columns, predicate: None }) => {
                let find = |name| {
                    let name = names::ident(name);
                    table.column(&name).ok_or_else(|| {
                        PgError::new("42703", format!("column \"{name}\" does not exist"))
                    })
                };
                let mut wanted = columns.iter().map(find).collect::<Result<Vec<_>>>()?;
                wanted.sort_unstable();
                let same = |columns: &Vec<usize>| {
                    let mut columns = columns.clone();
                    columns.sort_unstable();
                    columns == wanted
                };
                let mut indexes = table.indexes.iter();
                let found = indexes.position(|index| index.unique && same(&index.columns));
                let message = "there is no unique or exclusion constraint matching the ON CONFLICT \
                               specification";
                Some(found.ok_or_else(|| PgError::new("42P10", message))?)
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let name = names::object(name)?;
                let found = table.indexes.iter().position(|index| index.name == name);
                let message =
                    || format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                Some(found.ok_or_else(|| PgError::new("42704", message()))?)
            }
            Some(other) => return Err(PgError::unsupported(format_args!("ON CONFLICT {other}"))),
        };
        let update = match &ast.action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(_) if index.is_none() => {
                let message =
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                return Err(PgError::new("42601", message));
            }
            OnConflictAction::DoUpdate(update) => {
                let excluded =
                    Item { alias: "excluded".to_owned(), columns: fields_of(table), hidden: true };
                self.scope().items.push(excluded);
                let assignments = self.assignments(table, &update.assignments);
                let condition = match &update.selection {
                    None => Ok(Vec::new()),
                    Some(condition) => {
                        let bound = self.expr(condition)?;
                        self.condition("WHERE", bound).map(Expr::conjuncts)
                    }
                };
                self.scope().items.pop();
                let (assignments, condition) = (assignments?, condition?);
                Some(ConflictUpdate { assignments, condition })
            }
        };
        Ok(Conflict { index, update })
    }

    fn assignments(&mut self, table: &Table, all: &[Assignment]) -> Result<Vec<sql::Assignment>> {
        let mut bound: Vec<sql::Assignment> = Vec::new();
        for assignment in all {
            let AssignmentTarget::ColumnName(name) = &assignment.target else {
                return Err(PgError::unsupported(format_args!("SET {assignment}")));
            };
            let name = names::object(name)?;
            let column = table.column(&name).ok_or_else(|| missing_column(table, &name))?;
            if bound.iter().any(|(known, _)| *known == column) {
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(PgError::new("42601", message));
            }
            bound.push((column, self.value(&assignment.value, &table.columns[column])?));
        }
        Ok(bound)
    }

    pub(super) fn update(&mut self, ast: &ast::Update) -> Modified {
        let plain = ast.output.is_none() && ast.or.is_none() && ast.order_by.is_empty();
        if !plain || ast.limit.is_some() {
            return Err(PgError::unsupported(format_args!("the statement {ast}")));
        }
        let beside = match &ast.from {
            None => &[][..],
            Some(UpdateTableFromKind::AfterSet(from) | UpdateTableFromKind::BeforeSet(from)) => {
                from
            }
        };
        self.scopes.push(Scope::default());
        let bound = self.update_inside(ast, beside);
        self.scopes.pop();
        bound
    }

    fn update_inside(&mut self, ast: &ast::Update, beside: &[ast::TableWithJoins]) -> Modified {
        let tables = std::slice::from_ref(&ast.table);
        let (table, mut from, mut conditions) = self.target(tables, beside)?;
        let assignments = self.assignments(self.store.table(table), &ast.assignments)?;
        if let Some(selection) = &ast.selection {
            let bound = self.expr(selection)?;
            conditions.extend(self.condition("WHERE", bound)?.conjuncts());
        }
        let (returning, fields) = self.returning(ast.returning.as_ref())?;
        let filter = self.placed(&mut from, conditions);
        let source = self.rows_of(from, filter)?;
        let update = Update { table, source, assignments, returning };
        Ok((Action::Update(Box::new(update)), fields))
    }

    pub(super) fn delete(&mut self, ast: &ast::Delete) -> Modified {
        let plain = ast.tables.is_empty() && ast.output.is_none() && ast.order_by.is_empty();
        let FromTable::WithFromKeyword(tables) = &ast.from else {
            return Err(PgError::new("42601", "syntax error: DELETE wants FROM"));
        };
        if !plain || ast.limit.is_some() {
            return Err(PgError::unsupported(format_args!("the statement {ast}")));
        }
        self.scopes.push(Scope::default());
        let bound = self.delete_inside(ast, tables);
        self.scopes.pop();
        bound
    }

    fn delete_inside(&mut self, ast: &ast::Delete, tables: &[ast::TableWithJoins]) -> Modified {
        let beside = ast.using.as_deref().unwrap_or_default();
        let (table, mut from, mut conditions) = self.target(tables, beside)?;
        if let Some(selection) = &ast.selection {
            let bound = self.expr(selection)?;
            conditions.extend(self.condition("WHERE", bound)?.conjuncts());
        }
        let (returning, fields) = self.returning(ast.returning.as_ref())?;
        let filter = self.placed(&mut from, conditions);
        let source = self.rows_of(from, filter)?;
        Ok((Action::Delete(Box::new(Delete { table, source, returning })), fields))
    }

    fn rows_of(&mut self, from: Vec<From>, filter: Vec<Expr>) -> Result<Query> {
        let with = self.taken_with()?;
        let select = Select { from, filter, ..Select::default() };
        let body = Body::Select(Box::new(select));
        Ok(Query { with, body, ..Query::one_row(self.new_query(), Vec::new()) })
    }
}

fn width(query: &Query) -> usize {
    match &query.body {
        Body::Select(select) => select.output.len(),
        Body::Values(rows) => rows.first().map_or(0, Vec::len),
        Body::Union { left, .. } => width(left),
    }
}
