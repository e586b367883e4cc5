//! Binding FROM: tables, queries, functions, and how they are joined.

use sqlparser::ast::{
    Expr as Ast, FunctionArg, JoinConstraint, JoinOperator, TableAlias, TableFactor, TableWithJoins,
};

use super::call::positional;
use super::scope::Item;
use super::{Binder, names, place};
use crate::postgres::error::{PgError, Result};
use crate::postgres::locks::Mode;
use crate::postgres::sql::{Expr, Field, From, Source};
use crate::postgres::store::Table;
use crate::postgres::types::Type;

/// The columns of a table, as a query shows them.
pub(super) fn fields_of(table: &Table) -> Vec<Field> {
    let columns = table.columns.iter().enumerate();
    let field = |(at, column): (usize, &crate::postgres::store::Column)| Field {
        name: column.name.clone(),
        ty: column.ty,
        origin: (table.oid, i16::try_from(at + 1).expect("a table has at most 1600 columns")),
    };
    columns.map(field).collect()
}

impl Binder<'_> {
    /// The items, and the conditions of inner joins, which are as good as those of WHERE.
    pub(super) fn from(
        &mut self,
        ast: &[TableWithJoins],
        mode: Mode,
    ) -> Result<(Vec<From>, Vec<Expr>)> {
        let (mut items, mut conditions) = (Vec::new(), Vec::new());
        for tree in ast {
            items.push(self.factor(&tree.relation, mode)?);
            for join in &tree.joins {
                if join.global {
                    return Err(PgError::unsupported("GLOBAL joins"));
                }
                let mut item = self.factor(&join.relation, mode)?;
                let (constraint, left) = match &join.join_operator {
                    JoinOperator::Join(on) | JoinOperator::Inner(on) => (on, false),
                    JoinOperator::CrossJoin(on) => (on, false),
                    JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (on, true),
                    other => return Err(PgError::unsupported(format_args!("the join {other:?}"))),
                };
                let on = self.join_condition(constraint, items.len())?;
                match left {
                    true => item.left = Some(on),
                    false => conditions.extend(on),
                }
                items.push(item);
            }
        }
        Ok((items, conditions))
    }

    fn join_condition(&mut self, constraint: &JoinConstraint, item: usize) -> Result<Vec<Expr>> {
        match constraint {
            JoinConstraint::None => Ok(Vec::new()),
            JoinConstraint::On(on) => {
                let bound = self.expr(on)?;
                Ok(self.condition("JOIN/ON", bound)?.conjuncts())
            }
            JoinConstraint::Using(_) | JoinConstraint::UsingAlias(..) | JoinConstraint::Natural => {
                Err(PgError::unsupported(format_args!("JOIN USING of item {item}")))
            }
        }
    }

    /// Adds one item to the scope.
    pub(super) fn factor(&mut self, ast: &TableFactor, mode: Mode) -> Result<From> {
        match ast {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample: None,
                index_directives,
                inheritance: None,
            } if with_hints.is_empty() && partitions.is_empty() && index_directives.is_empty() => {
                let name = names::object(name)?;
                match args {
                    Some(args) if args.settings.is_none() => {
                        self.function_item(&name, &args.args, alias.as_ref())
                    }
                    Some(_) => Err(PgError::unsupported(ast)),
                    None => self.table_item(&name, alias.as_ref(), mode),
                }
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None } => {
                // Only LATERAL sees the items beside it.
                let beside = match lateral {
                    true => Vec::new(),
                    false => std::mem::take(&mut self.scope().items),
                };
                let bound = self.query(subquery, true);
                if !lateral {
                    self.scope().items = beside;
                }
                let (query, fields) = bound?;
                if query.lock.is_some() {
                    return Err(PgError::unsupported("FOR UPDATE in a query of FROM; use WITH"));
                }
                self.item(Source::Query(Box::new(query)), "", fields, alias.as_ref())
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality: false,
            } => self.unnest(array_exprs, alias.as_ref()),
            TableFactor::Function { name, args, with_ordinality: false, alias, .. } => {
                self.function_item(&names::object(name)?, args, alias.as_ref())
            }
            other => Err(PgError::unsupported(format_args!("FROM {other}"))),
        }
    }

    fn table_item(&mut self, name: &str, alias: Option<&TableAlias>, mode: Mode) -> Result<From> {
        let withs = self.scopes.iter().rev().flat_map(|scope| &scope.with);
        let with = withs.into_iter().find(|with| with.name == name);
        if let Some((id, fields)) = with.map(|with| (with.id, with.fields.clone())) {
            let fields = fields.ok_or_else(|| {
                let message = format!("WITH query \"{name}\" does not have a RETURNING clause");
                PgError::new("0A000", message)
            })?;
            return self.item(Source::With(id), name, fields, alias);
        }
        if name == "pg_index" {
            let field = |name: &str, ty| Field { name: name.to_owned(), ty, origin: (0, 0) };
            let fields = [("indexrelid", Type::TEXT), ("indrelid", Type::TEXT)];
            let mut fields: Vec<Field> = fields.map(|(name, ty)| field(name, ty)).to_vec();
            fields.push(field("indisvalid", Type::BOOL));
            return self.item(Source::Indexes, name, fields, alias);
        }
        let table = self.table(name, mode)?;
        self.item(Source::Table(table.oid), name, fields_of(table), alias)
    }

    fn item(
        &mut self,
        source: Source,
        name: &str,
        mut columns: Vec<Field>,
        alias: Option<&TableAlias>,
    ) -> Result<From> {
        let mut alias_name = name.to_owned();
        if let Some(alias) = alias {
            alias_name = names::ident(&alias.name);
            if alias.columns.len() > columns.len() {
                let message = format!("table \"{alias_name}\" has too few columns");
                return Err(PgError::new("42P10", message));
            }
            for (column, name) in columns.iter_mut().zip(&alias.columns) {
                column.name = names::ident(&name.name);
            }
        }
        let taken = |item: &Item| !alias_name.is_empty() && item.alias == alias_name;
        if self.scope().items.iter().any(taken) {
            let message = format!("table name \"{alias_name}\" specified more than once");
            return Err(PgError::new("42712", message));
        }
        let width = columns.len();
        self.scope().items.push(Item { alias: alias_name, columns, hidden: false });
        Ok(From { source, left: None, filter: Vec::new(), width, probe: None })
    }

    /// A function whose rows are an item. Its column is called like the item.
    fn function_item(
        &mut self,
        name: &str,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Result<From> {
        let args = args.iter().map(positional).collect::<Result<Vec<_>>>()?;
        if name == "unnest" {
            return self.unnest(args, alias);
        }
        let args = args.into_iter().map(|arg| self.expr(arg)).collect::<Result<Vec<_>>>()?;
        let called = alias.map_or_else(|| name.to_owned(), |alias| names::ident(&alias.name));
        let field = |name: &str, ty| Field { name: name.to_owned(), ty, origin: (0, 0) };
        let as_text = name.ends_with("_text");
        let ty = if as_text { Type::TEXT } else { Type::JSONB };
        let json = |binder: &mut Self, args: Vec<(Expr, Type)>| match <[_; 1]>::try_from(args) {
            Ok([arg]) => binder.argument(arg, Type::JSONB),
            Err(_) => Err(PgError::new("42883", format!("function {name} takes one argument"))),
        };
        let (source, fields) = match name {
            "jsonb_each" | "jsonb_each_text" => {
                let source = Source::JsonEach { json: json(self, args)?, as_text };
                (source, vec![field("key", Type::TEXT), field("value", ty)])
            }
            "jsonb_array_elements" | "jsonb_array_elements_text" => {
                let source = Source::JsonElements { json: json(self, args)?, as_text };
                (source, vec![field("value", ty)])
            }
            "jsonb_object_keys" => {
                (Source::JsonKeys(json(self, args)?), vec![field(&called, Type::TEXT)])
            }
            "generate_series" => match <[_; 2]>::try_from(args) {
                Ok([from, to]) => {
                    let (from, to, ty) = self.comparable(from, "series", to)?;
                    if !ty.is_integer() {
                        return Err(PgError::unsupported(format_args!("series of {}", ty.name())));
                    }
                    (Source::Series(from, to), vec![field(&called, ty)])
                }
                Err(_) => return Err(PgError::unsupported("generate_series with a step")),
            },
            _ => match self.named_call(name, args)? {
                (Expr::Call(function, args), ty) => {
                    (Source::Call(function, args), vec![field(&called, ty)])
                }
                _ => return Err(PgError::unsupported(format_args!("{name} in FROM"))),
            },
        };
        self.item(source, name, fields, alias)
    }

    fn unnest<'q>(
        &mut self,
        arrays: impl IntoIterator<Item = &'q Ast>,
        alias: Option<&TableAlias>,
    ) -> Result<From> {
        let (mut args, mut fields) = (Vec::new(), Vec::new());
        for array in arrays {
            let (expr, ty) = self.expr(array)?;
            if !ty.array {
                let message =
                    format!("function unnest({}) is not unique or does not exist", ty.name());
                return Err(PgError::new("42725", message));
            }
            args.push(expr);
            let element = ty.element();
            fields.push(Field { name: "unnest".to_owned(), ty: element, origin: (0, 0) });
        }
        if let ([field], Some(alias)) = (&mut fields[..], alias) {
            // A single column is called like the item.
            field.name = names::ident(&alias.name);
        }
        self.item(Source::Unnest(args), "unnest", fields, alias)
    }

    /// The table of an UPDATE or DELETE as item 0, and what stands beside it.
    pub(super) fn target(
        &mut self,
        tables: &[TableWithJoins],
        beside: &[TableWithJoins],
    ) -> Result<(u32, Vec<From>, Vec<Expr>)> {
        let [TableWithJoins { relation, joins }] = tables else {
            return Err(PgError::unsupported("several target tables"));
        };
        if !joins.is_empty() {
            return Err(PgError::unsupported("a join as target; use FROM or USING"));
        }
        let item = self.factor(relation, Mode::RowExclusive)?;
        let Source::Table(oid) = item.source else {
            return Err(PgError::new("42809", "the target is not a table"));
        };
        let mut from = vec![item];
        let (more, conditions) = self.beside(beside)?;
        from.extend(more);
        Ok((oid, from, conditions))
    }

    fn beside(&mut self, beside: &[TableWithJoins]) -> Result<(Vec<From>, Vec<Expr>)> {
        if beside.iter().any(|tree| tree.joins.iter().any(|join| is_left(&join.join_operator))) {
            return Err(PgError::unsupported("LEFT JOIN beside a target"));
        }
        self.from(beside, Mode::AccessShare)
    }

    pub(super) fn placed(&self, from: &mut [From], conditions: Vec<Expr>) -> Vec<Expr> {
        place::conditions(self.store, from, conditions)
    }
}

fn is_left(operator: &JoinOperator) -> bool {
    matches!(operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_))
}
