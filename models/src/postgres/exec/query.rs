//! Running queries that wait for nothing.

use std::cmp::Ordering;
use std::sync::Arc;

use super::aggregate::grouped;
use super::eval::eval;
use super::scan::{Tuple, tuples};
use super::{Context, Env, Halt};
use crate::postgres::error::PgError;
use crate::postgres::sql::{Body, Expr, Query, Select, Sort};
use crate::postgres::types::{Cell, Row};

/// The rows of a query. One that locks rows must have been run before; one that looks at no row
/// around it is run once.
pub fn rows(
    ctx: &Context<'_>,
    query: &Query,
    outer: Option<&Env<'_>>,
) -> Result<Arc<Vec<Row>>, Halt> {
    if query.lock.is_some() {
        return ctx.memo.locked(query.id).ok_or_else(|| Halt::Lock(Box::new(query.clone())));
    }
    if !query.correlated
        && let Some(known) = ctx.memo.known(query.id)
    {
        return Ok(known);
    }
    let rows = Arc::new(run(ctx, query, outer)?);
    if !query.correlated {
        ctx.memo.note(query.id, rows.clone());
    }
    Ok(rows)
}

/// Runs the queries of WITH.
pub fn with(ctx: &Context<'_>, all: &[Query]) -> Result<(), Halt> {
    for query in all {
        let rows = rows(ctx, query, None)?;
        ctx.memo.note_with(query.id, rows);
    }
    Ok(())
}

fn run(ctx: &Context<'_>, query: &Query, outer: Option<&Env<'_>>) -> Result<Vec<Row>, Halt> {
    with(ctx, &query.with)?;
    let mut found = match &query.body {
        Body::Select(select) => selected(ctx, query, select, outer)?,
        Body::Values(rows) => {
            let env = Env::new(&[], outer);
            let rows = rows.iter().map(|row| project(ctx, &env, row));
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            sorted_result(ctx, rows, &query.order, outer)?
        }
        Body::Union { left, right, all } => {
            let here = Env::new(&[], outer);
            let mut both = rows(ctx, left, Some(&here))?.to_vec();
            both.extend(rows(ctx, right, Some(&here))?.iter().cloned());
            if !all {
                both = distinct(both);
            }
            sorted_result(ctx, both, &query.order, outer)?
        }
    };
    let (offset, limit) = limit_of(ctx, query, outer)?;
    found.drain(..offset.min(found.len()));
    found.truncate(limit);
    Ok(found)
}

fn selected(
    ctx: &Context<'_>,
    query: &Query,
    select: &Select,
    outer: Option<&Env<'_>>,
) -> Result<Vec<Row>, Halt> {
    let found = tuples(ctx, select, outer)?;
    let keyed: Vec<(Vec<Cell>, Row)> = match &select.group {
        Some(group) => {
            let mut keyed = Vec::new();
            for (tuple, aggregates) in grouped(ctx, select, group, found, outer)? {
                let env = Env { rows: &tuple.rows, aggregates: &aggregates, outer };
                let having = group.having.as_ref().map(|having| eval(ctx, &env, having));
                if having.transpose()?.is_none_or(|cell| cell.is_true()) {
                    keyed.push((
                        keys(ctx, &env, &query.order)?,
                        project(ctx, &env, &select.output)?,
                    ));
                }
            }
            keyed
        }
        None => {
            let each = found.iter().map(|tuple| {
                let env = Env::new(&tuple.rows, outer);
                Ok((keys(ctx, &env, &query.order)?, project(ctx, &env, &select.output)?))
            });
            each.collect::<Result<_, Halt>>()?
        }
    };
    let rows = sorted(keyed, &query.order);
    Ok(if select.distinct { distinct(rows) } else { rows })
}

pub fn project(ctx: &Context<'_>, env: &Env<'_>, output: &[Expr]) -> Result<Row, Halt> {
    output.iter().map(|expr| eval(ctx, env, expr)).collect()
}

pub fn keys(ctx: &Context<'_>, env: &Env<'_>, order: &[Sort]) -> Result<Vec<Cell>, Halt> {
    order.iter().map(|sort| eval(ctx, env, &sort.key)).collect()
}

/// Rows with their keys in the order that the keys ask for; equal ones stay as they came.
pub fn sorted<T>(mut keyed: Vec<(Vec<Cell>, T)>, order: &[Sort]) -> Vec<T> {
    keyed.sort_by(|(a, _), (b, _)| compare_keys(a, b, order));
    keyed.into_iter().map(|(_, row)| row).collect()
}

fn compare_keys(a: &[Cell], b: &[Cell], order: &[Sort]) -> Ordering {
    let compared = order.iter().zip(a.iter().zip(b)).map(|(sort, (a, b))| {
        let nulls_first = |first: Ordering| if sort.nulls_first { first } else { first.reverse() };
        match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => nulls_first(Ordering::Less),
            (false, true) => nulls_first(Ordering::Greater),
            (false, false) if sort.descending => b.cmp(a),
            (false, false) => a.cmp(b),
        }
    });
    compared.into_iter().find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}

fn sorted_result(
    ctx: &Context<'_>,
    rows: Vec<Row>,
    order: &[Sort],
    outer: Option<&Env<'_>>,
) -> Result<Vec<Row>, Halt> {
    let keyed = rows.into_iter().map(|row| {
        let here = [row.clone()];
        Ok((keys(ctx, &Env::new(&here, outer), order)?, row))
    });
    Ok(sorted(keyed.collect::<Result<Vec<_>, Halt>>()?, order))
}

fn distinct(rows: Vec<Row>) -> Vec<Row> {
    let mut seen = std::collections::BTreeSet::new();
    rows.into_iter().filter(|row| seen.insert(row.clone())).collect()
}

/// OFFSET and LIMIT.
///
/// # Errors
/// 2201W and 2201X for negative ones.
pub fn limit_of(
    ctx: &Context<'_>,
    query: &Query,
    outer: Option<&Env<'_>>,
) -> Result<(usize, usize), Halt> {
    let count = |expr: &Option<Expr>, code, what: &str| -> Result<Option<usize>, Halt> {
        let Some(expr) = expr else { return Ok(None) };
        let Some(n) = eval(ctx, &Env::new(&[], outer), expr)?.as_int() else { return Ok(None) };
        let negative = || PgError::new(code, format!("{what} must not be negative"));
        usize::try_from(n).map(Some).map_err(|_| negative().into())
    };
    let offset = count(&query.offset, "2201X", "OFFSET")?;
    let limit = count(&query.limit, "2201W", "LIMIT")?;
    Ok((offset.unwrap_or(0), limit.unwrap_or(usize::MAX)))
}

/// The tuples of a locking query in its order, to be locked one by one.
pub fn candidates(
    ctx: &Context<'_>,
    query: &Query,
    select: &Select,
    outer: Option<&Env<'_>>,
) -> Result<Vec<Tuple>, Halt> {
    with(ctx, &query.with)?;
    let keyed = tuples(ctx, select, outer)?.into_iter().map(|tuple| {
        let keys = keys(ctx, &Env::new(&tuple.rows, outer), &query.order)?;
        Ok((keys, tuple))
    });
    Ok(sorted(keyed.collect::<Result<Vec<_>, Halt>>()?, &query.order))
}
