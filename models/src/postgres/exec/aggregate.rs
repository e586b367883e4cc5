//! GROUP BY and what aggregates come to.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::eval::{eval, holds};
use super::query::{keys, sorted};
use super::scan::Tuple;
use super::{Context, Env, Halt, json};
use crate::postgres::error::{PgError, Result as PgResult};
use crate::postgres::sql::{Aggregate, AggregateKind, Group, Select};
use crate::postgres::types::{Array, Cell, Decimal, Float, Json, Row};

/// For each group its first tuple, which has the keys, and its aggregates. Without keys there is
/// one group, even over no rows.
pub fn grouped(
    ctx: &Context<'_>,
    select: &Select,
    group: &Group,
    found: Vec<Tuple>,
    outer: Option<&Env<'_>>,
) -> Result<Vec<(Tuple, Vec<Cell>)>, Halt> {
    let mut groups: BTreeMap<Vec<Cell>, Vec<Tuple>> = BTreeMap::new();
    if group.keys.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for tuple in found {
        let env = Env::new(&tuple.rows, outer);
        let key = group.keys.iter().map(|key| eval(ctx, &env, key)).collect::<Result<_, _>>()?;
        groups.entry(key).or_default().push(tuple);
    }
    let none = || {
        let nulls = |width: usize| -> Row { vec![Cell::Null; width].into() };
        let rows = select.from.iter().map(|from| nulls(from.width)).collect();
        Tuple { rows, places: vec![None; select.from.len()] }
    };
    let mut all = Vec::new();
    for tuples in groups.into_values() {
        let aggregates = group.aggregates.iter().map(|of| aggregate(ctx, of, &tuples, outer));
        let aggregates = aggregates.collect::<Result<_, _>>()?;
        all.push((tuples.into_iter().next().unwrap_or_else(none), aggregates));
    }
    Ok(all)
}

fn aggregate(
    ctx: &Context<'_>,
    of: &Aggregate,
    tuples: &[Tuple],
    outer: Option<&Env<'_>>,
) -> Result<Cell, Halt> {
    let mut keyed = Vec::new();
    for tuple in tuples {
        let env = Env::new(&tuple.rows, outer);
        if !holds(ctx, &env, of.filter.as_slice())? {
            continue;
        }
        let argument = match &of.argument {
            Some(argument) => eval(ctx, &env, argument)?,
            None => Cell::Null,
        };
        let separator = of.separator.as_ref().map(|separator| eval(ctx, &env, separator));
        let separator = separator.transpose()?.unwrap_or(Cell::Null);
        keyed.push((keys(ctx, &env, &of.order)?, (argument, separator)));
    }
    let mut values = sorted(keyed, &of.order);
    let keeps_nulls = matches!(
        of.kind,
        AggregateKind::CountRows | AggregateKind::ArrayAgg | AggregateKind::JsonAgg
    );
    if !keeps_nulls {
        values.retain(|(value, _)| !value.is_null());
    }
    if of.distinct {
        values.sort();
        values.dedup_by(|a, b| a.0 == b.0);
    }
    Ok(folded(of, values)?)
}

fn folded(of: &Aggregate, values: Vec<(Cell, Cell)>) -> PgResult<Cell> {
    let count = || Cell::Int8(i64::try_from(values.len()).unwrap_or(i64::MAX));
    if let AggregateKind::CountRows | AggregateKind::Count = of.kind {
        return Ok(count());
    }
    if values.is_empty() {
        return Ok(Cell::Null);
    }
    let cells = values.iter().map(|(value, _)| value);
    Ok(match of.kind {
        AggregateKind::CountRows | AggregateKind::Count => count(),
        AggregateKind::Min => cells.min().cloned().unwrap_or(Cell::Null),
        AggregateKind::Max => cells.max().cloned().unwrap_or(Cell::Null),
        AggregateKind::BoolAnd => Cell::Bool(cells.into_iter().all(Cell::is_true)),
        AggregateKind::BoolOr => Cell::Bool(cells.into_iter().any(Cell::is_true)),
        AggregateKind::Sum => sum(of, cells)?,
        AggregateKind::ArrayAgg => {
            let items: Vec<Cell> = cells.cloned().collect();
            match of.ty.array {
                true => Array::stacked(of.ty.scalar, &items)?.into(),
                false => Array::flat(of.ty.scalar, items).into(),
            }
        }
        AggregateKind::JsonAgg => {
            Cell::Jsonb(Arc::new(Json::Array(cells.map(json::from_cell).collect())))
        }
        AggregateKind::StringAgg => {
            let mut text = String::new();
            for (at, (value, separator)) in values.iter().enumerate() {
                if at > 0 {
                    text.push_str(separator.as_str().unwrap_or_default());
                }
                text.push_str(value.as_str().unwrap_or_default());
            }
            Cell::text(text)
        }
    })
}

fn sum<'a>(of: &Aggregate, cells: impl Iterator<Item = &'a Cell>) -> PgResult<Cell> {
    use crate::postgres::types::Scalar;
    if of.ty.scalar == Scalar::Float8 {
        let floats = cells.map(|cell| if let Cell::Float8(Float(n)) = cell { *n } else { 0.0 });
        return Ok(Cell::Float8(Float(floats.sum())));
    }
    let all: i128 = cells.filter_map(Cell::as_int).map(i128::from).sum();
    match of.ty.scalar {
        Scalar::Int8 => Ok(Cell::Numeric(Decimal::from_int(all))),
        _ => {
            let out = || PgError::new("22003", "bigint out of range");
            Ok(Cell::Int8(i64::try_from(all).map_err(|_| out())?))
        }
    }
}
