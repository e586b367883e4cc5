//! The rows of FROM: each item's rows for each combination of those before it.

use std::sync::Arc;

use super::eval::{call, eval, holds};
use super::query;
use super::{Context, Env, Halt};
use crate::postgres::error::{PgError, Result as PgResult};
use crate::postgres::sql::{Expr, From, Select, Source};
use crate::postgres::store::{Index, Table, Tid};
use crate::postgres::types::{Cell, Json, Row};

/// The place of a stored row: table and version.
pub type Place = Option<(u32, Tid)>;

/// One row of each item of FROM, and where it is stored.
#[derive(Debug, Clone, Default)]
pub struct Tuple {
    pub rows: Vec<Row>,
    pub places: Vec<Place>,
}

/// All combinations for which the conditions hold.
pub fn tuples(
    ctx: &Context<'_>,
    select: &Select,
    outer: Option<&Env<'_>>,
) -> Result<Vec<Tuple>, Halt> {
    let mut found = Vec::new();
    if holds(ctx, &Env::new(&[], outer), &select.filter)? {
        extend(ctx, &select.from, outer, &mut Tuple::default(), &mut found)?;
    }
    Ok(found)
}

/// Do the conditions hold for these rows, some of which are newer than when they were found?
pub fn still_holds(
    ctx: &Context<'_>,
    select: &Select,
    rows: &[Row],
    outer: Option<&Env<'_>>,
) -> Result<bool, Halt> {
    let env = Env::new(rows, outer);
    for from in &select.from {
        if !holds(ctx, &env, &from.filter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn extend(
    ctx: &Context<'_>,
    items: &[From],
    outer: Option<&Env<'_>>,
    tuple: &mut Tuple,
    found: &mut Vec<Tuple>,
) -> Result<(), Halt> {
    let Some(from) = items.get(tuple.rows.len()) else {
        found.push(tuple.clone());
        return Ok(());
    };
    let mut matched = false;
    for (row, place) in item_rows(ctx, from, &tuple.rows, outer)? {
        tuple.rows.push(row);
        tuple.places.push(place);
        let env = Env::new(&tuple.rows, outer);
        if holds(ctx, &env, from.left.as_deref().unwrap_or_default())? {
            matched = true;
            if holds(ctx, &env, &from.filter)? {
                extend(ctx, items, outer, tuple, found)?;
            }
        }
        tuple.rows.pop();
        tuple.places.pop();
    }
    if from.left.is_some() && !matched {
        tuple.rows.push(vec![Cell::Null; from.width].into());
        tuple.places.push(None);
        if holds(ctx, &Env::new(&tuple.rows, outer), &from.filter)? {
            extend(ctx, items, outer, tuple, found)?;
        }
        tuple.rows.pop();
        tuple.places.pop();
    }
    Ok(())
}

/// The rows of one item, before its conditions.
fn item_rows(
    ctx: &Context<'_>,
    from: &From,
    before: &[Row],
    outer: Option<&Env<'_>>,
) -> Result<Vec<(Row, Place)>, Halt> {
    let env = Env::new(before, outer);
    let bare = |rows: Vec<Row>| rows.into_iter().map(|row| (row, None)).collect();
    let json = |expr: &Expr| eval(ctx, &env, expr);
    match &from.source {
        Source::Table(oid) => {
            let table = ctx.store.table(*oid);
            let key = match &from.probe {
                None => None,
                Some((index, key)) => {
                    let key = key.iter().map(|expr| eval(ctx, &env, expr));
                    Some((*index, key.collect::<Result<Vec<_>, _>>()?))
                }
            };
            Ok(stored(ctx, table, key))
        }
        Source::Query(query) => Ok(bare(query::rows(ctx, query, Some(&env))?.to_vec())),
        Source::With(id) => {
            let rows = ctx.memo.with(*id).expect("WITH runs before what uses it");
            Ok(bare(rows.to_vec()))
        }
        Source::Unnest(args) => {
            let arrays = args.iter().map(|arg| eval(ctx, &env, arg));
            Ok(bare(unnested(&arrays.collect::<Result<Vec<_>, _>>()?)))
        }
        Source::JsonEach { json: expr, as_text } => Ok(bare(each(&json(expr)?, *as_text)?)),
        Source::JsonElements { json: expr, as_text } => Ok(bare(elements(&json(expr)?, *as_text)?)),
        Source::JsonKeys(expr) => {
            let entries = each(&json(expr)?, true)?;
            Ok(bare(entries.into_iter().map(|row| [row[0].clone()].into()).collect()))
        }
        Source::Series(from, to) => Ok(bare(series(&json(from)?, &json(to)?))),
        Source::Indexes => Ok(bare(indexes(ctx))),
        Source::Call(function, args) => Ok(bare(vec![[call(ctx, &env, *function, args)?].into()])),
    }
}

/// The visible rows of a table, by an index where a key is given.
fn stored(ctx: &Context<'_>, table: &Table, key: Option<(usize, Vec<Cell>)>) -> Vec<(Row, Place)> {
    let visible = |tid: Tid| {
        let version = &table.versions[&tid];
        let seen = ctx.snapshot.visible(&ctx.store.xacts, version);
        seen.then(|| (table.whole(&version.row), Some((table.oid, tid))))
    };
    match key {
        None => table.versions.keys().filter_map(|tid| visible(*tid)).collect(),
        // Nothing equals null.
        Some((_, key)) if key.iter().any(Cell::is_null) => Vec::new(),
        Some((index, key)) => {
            let index = &table.indexes[index];
            let tids = match key.len() == index.columns.len() {
                true => index.at(&key).to_vec(),
                false => index.beginning(&key),
            };
            tids.into_iter().filter_map(visible).collect()
        }
    }
}

/// Name, table, and whether it can be used, of each index that is there.
fn indexes(ctx: &Context<'_>) -> Vec<Row> {
    let tables = ctx.store.tables.values();
    let tables = tables.filter(|table| ctx.store.find(&table.name, ctx.snapshot.own()).is_some());
    let of = |table: &Table| -> Vec<Row> {
        let row = |index: &Index| -> Row {
            [Cell::text(&*index.name), Cell::text(&*table.name), Cell::Bool(true)].into()
        };
        table.indexes.iter().map(row).collect()
    };
    tables.flat_map(of).collect()
}

/// The elements of all arrays side by side; shorter ones end in nulls.
fn unnested(arrays: &[Cell]) -> Vec<Row> {
    let items = |cell: &Cell| match cell {
        Cell::Array(array) => array.items.clone(),
        _ => Vec::new(),
    };
    let columns: Vec<Vec<Cell>> = arrays.iter().map(items).collect();
    let length = columns.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |column: &Vec<Cell>, at: usize| column.get(at).cloned().unwrap_or(Cell::Null);
    (0..length).map(|at| columns.iter().map(|column| cell(column, at)).collect()).collect()
}

fn shown(json: &Json, as_text: bool) -> Cell {
    match as_text {
        true => json.as_text().map_or(Cell::Null, Cell::Text),
        false => Cell::Jsonb(Arc::new(json.clone())),
    }
}

fn each(cell: &Cell, as_text: bool) -> PgResult<Vec<Row>> {
    let Cell::Jsonb(json) = cell else { return Ok(Vec::new()) };
    let function = if as_text { "jsonb_each_text" } else { "jsonb_each" };
    match &**json {
        Json::Object(entries) => {
            let row = |(key, value): &(Arc<str>, Json)| -> Row {
                [Cell::Text(key.clone()), shown(value, as_text)].into()
            };
            Ok(entries.iter().map(row).collect())
        }
        _ => Err(PgError::new("22023", format!("cannot call {function} on a non-object"))),
    }
}

fn elements(cell: &Cell, as_text: bool) -> PgResult<Vec<Row>> {
    let Cell::Jsonb(json) = cell else { return Ok(Vec::new()) };
    match &**json {
        Json::Array(items) => Ok(items.iter().map(|item| [shown(item, as_text)].into()).collect()),
        _ => Err(PgError::new("22023", "cannot extract elements from a non-array")),
    }
}

fn series(from: &Cell, to: &Cell) -> Vec<Row> {
    let (Some(first), Some(last)) = (from.as_int(), to.as_int()) else { return Vec::new() };
    let cell = |n: i64| match from {
        Cell::Int8(_) => Cell::Int8(n),
        _ => Cell::Int4(i32::try_from(n).unwrap_or(i32::MAX)),
    };
    (first..=last).map(|n| [cell(n)].into()).collect()
}
