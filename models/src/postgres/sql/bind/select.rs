//! Binding SELECT.

use sqlparser::ast::{
    Distinct, Expr as Ast, GroupByExpr, OrderByExpr, Select as SelectAst, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind as Qualified, Value, WildcardAdditionalOptions,
};

use super::title::column_name;
use super::{Binder, names, place};
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::Mode;
use crate::postgres::sql::{Body, ColumnRef, Expr, Field, Group, Select, Sort};

impl Binder<'_> {
    pub(super) fn select(
        &mut self,
        ast: &SelectAst,
        order: Vec<&OrderByExpr>,
        mode: Mode,
        settle: bool,
    ) -> Result<(Body, Vec<Sort>, Vec<Field>)> {
        refuse_the_rest(ast)?;
        let distinct = match &ast.distinct {
            None | Some(Distinct::All) => false,
            Some(Distinct::Distinct) => true,
            Some(Distinct::On(_)) => return Err(PgError::unsupported("DISTINCT ON")),
        };
        let (mut from, mut conditions) = self.from(&ast.from, mode)?;
        if let Some(selection) = &ast.selection {
            let bound = self.expr(selection)?;
            conditions.extend(self.condition("WHERE", bound)?.conjuncts());
        }
        self.scope().aggregates = Some(Vec::new());
        let (output, fields) = self.output(&ast.projection, settle)?;
        let having = match &ast.having {
            None => None,
            Some(having) => {
                let bound = self.expr(having)?;
                Some(self.condition("HAVING", bound)?)
            }
        };
        let keys = self.group_keys(&ast.group_by, (&fields, &output))?;
        let order: Vec<Sort> = order
            .into_iter()
            .map(|key| self.sort(key, Some((&fields, &output))))
            .collect::<Result<_>>()?;
        let aggregates = self.scope().aggregates.take().expect("it was set above");
        let grouped = !keys.is_empty() || !aggregates.is_empty() || having.is_some();
        if grouped {
            let parts = output.iter().chain(&having).chain(order.iter().map(|sort| &sort.key));
            let by_key = self.keys_of_tables(&keys);
            let wrong = parts.into_iter().find_map(|part| only_grouped(part, &keys, &by_key));
            if let Some(of) = wrong {
                let item = &self.scope().items[of.item];
                let name = format!("{}.{}", item.alias, item.columns[of.column].name);
                let message = format!(
                    "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate \
                     function"
                );
                return Err(PgError::new("42803", message));
            }
        }
        if distinct && order.iter().any(|sort| !output.contains(&sort.key)) {
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(PgError::new("42P10", message));
        }
        let group = grouped.then_some(Group { keys, aggregates, having });
        let filter = place::conditions(self.store, &mut from, conditions);
        let select = Select { from, filter, group, output, distinct };
        Ok((Body::Select(Box::new(select)), order, fields))
    }

    /// The list of SELECT, or of RETURNING.
    pub(super) fn output(
        &mut self,
        items: &[SelectItem],
        settle: bool,
    ) -> Result<(Vec<Expr>, Vec<Field>)> {
        let (mut output, mut fields) = (Vec::new(), Vec::new());
        for item in items {
            let (expr, name) = match item {
                SelectItem::UnnamedExpr(expr) => (expr, column_name(expr)),
                SelectItem::ExprWithAlias { expr, alias } => (expr, names::ident(alias)),
                SelectItem::Wildcard(options) if is_plain(options) => {
                    let all = self.all_columns(None)?;
                    all.into_iter().for_each(|(expr, field)| {
                        output.push(expr);
                        fields.push(field);
                    });
                    continue;
                }
                SelectItem::QualifiedWildcard(Qualified::ObjectName(of), options)
                    if is_plain(options) =>
                {
                    let all = self.all_columns(Some(&names::object(of)?))?;
                    all.into_iter().for_each(|(expr, field)| {
                        output.push(expr);
                        fields.push(field);
                    });
                    continue;
                }
                other => return Err(PgError::unsupported(format_args!("selecting {other}"))),
            };
            let bound = self.expr(expr)?;
            let (expr, ty) = if settle { self.settled(bound)? } else { bound };
            let origin = self.origin(&expr);
            output.push(expr);
            fields.push(Field { name, ty, origin });
        }
        Ok((output, fields))
    }

    fn origin(&mut self, expr: &Expr) -> (u32, i16) {
        match expr {
            Expr::Column(of) if of.up == 0 => self.scope().items[of.item].columns[of.column].origin,
            _ => (0, 0),
        }
    }

    fn group_keys(
        &mut self,
        ast: &GroupByExpr,
        (fields, output): (&[Field], &[Expr]),
    ) -> Result<Vec<Expr>> {
        let keys = match ast {
            GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => keys,
            other => return Err(PgError::unsupported(format_args!("{other}"))),
        };
        let collected = self.scope().aggregates.take();
        let mut bound = Vec::new();
        for key in keys {
            let placed = match key {
                Ast::Value(value) => match &value.value {
                    Value::Number(digits, _) => digits.parse::<usize>().ok(),
                    _ => None,
                },
                _ => None,
            };
            if let Some(expr) = placed.and_then(|n| output.get(n.wrapping_sub(1))) {
                bound.push(expr.clone());
                continue;
            }
            // A column of FROM comes before a name of the result, here only.
            let result = self.expr(key);
            let named = match (&result, key) {
                (Err(error), Ast::Identifier(name)) if error.report().code == "42703" => {
                    let name = names::ident(name);
                    fields.iter().position(|field| field.name == name)
                }
                _ => None,
            };
            bound.push(match named {
                Some(at) => output[at].clone(),
                None => self.settled(result?)?.0,
            });
        }
        self.scope().aggregates = collected;
        Ok(bound)
    }

    /// The items of FROM whose whole primary key is among the keys: their other columns follow.
    fn keys_of_tables(&mut self, keys: &[Expr]) -> Vec<usize> {
        let store = self.store;
        let items = self.scope().items.iter().enumerate();
        let determined = items.filter(|(at, item)| {
            let oid = item.columns.first().map_or(0, |field| field.origin.0);
            let primary = store.tables.get(&oid).and_then(|table| table.primary_key());
            primary.is_some_and(|index| {
                index.columns.iter().all(|column| keys.contains(&Expr::column(0, *at, *column)))
            })
        });
        determined.map(|(at, _)| at).collect()
    }
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none()
}

/// Outside of aggregates, a grouped query may look only at what it groups by: the column that breaks
/// this, if there is one.
fn only_grouped(expr: &Expr, keys: &[Expr], determined: &[usize]) -> Option<ColumnRef> {
    if keys.contains(expr) {
        return None;
    }
    let wrong = |of: ColumnRef| {
        of.up == 0 && !determined.contains(&of.item) && !keys.contains(&Expr::Column(of))
    };
    if let Expr::Column(of) = expr {
        return wrong(*of).then_some(*of);
    }
    let mut found = None;
    expr.children(&mut |child| found = found.or_else(|| only_grouped(child, keys, determined)));
    // What a subquery looks out at.
    if expr.is_query() {
        expr.columns(0, &mut |of| found = found.or_else(|| wrong(of).then_some(of)));
    }
    found
}

fn refuse_the_rest(ast: &SelectAst) -> Result<()> {
    let plain = ast.optimizer_hints.is_empty()
        && ast.select_modifiers.is_none()
        && ast.top.is_none()
        && ast.exclude.is_none()
        && ast.into.is_none()
        && ast.lateral_views.is_empty()
        && ast.prewhere.is_none()
        && ast.connect_by.is_empty()
        && ast.cluster_by.is_empty()
        && ast.distribute_by.is_empty()
        && ast.sort_by.is_empty()
        && ast.named_window.is_empty()
        && ast.qualify.is_none()
        && ast.value_table_mode.is_none()
        && matches!(ast.flavor, SelectFlavor::Standard);
    match plain {
        true => Ok(()),
        false => Err(PgError::unsupported(format_args!("the query {ast}"))),
    }
}
