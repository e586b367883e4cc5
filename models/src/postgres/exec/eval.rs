//! Evaluating expressions.

use std::sync::Arc;

use super::{Halt, Memo, arithmetic, function, query};
use crate::postgres::error::PgError;
use crate::postgres::session::Settings;
use crate::postgres::sql::{ColumnRef, Comparison, Expr, Function};
use crate::postgres::store::{Snapshot, Store};
use crate::postgres::types::{Array, Cell, Row, Type, cast};

/// What an evaluation can see.
pub struct Context<'a> {
    pub store: &'a Store,
    pub snapshot: &'a Snapshot,
    pub params: &'a [Cell],
    pub facts: &'a Facts,
    pub memo: &'a Memo,
}

/// What functions tell about the session and the time.
#[derive(Debug, Clone)]
pub struct Facts {
    /// When the transaction began.
    pub now: i64,
    pub clock: i64,
    pub pid: i32,
    pub xid: u64,
    pub user: Arc<str>,
    pub database: Arc<str>,
    pub settings: Arc<Settings>,
}

/// The rows at hand, and those of the queries around.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub rows: &'a [Row],
    pub aggregates: &'a [Cell],
    pub outer: Option<&'a Env<'a>>,
}

impl<'a> Env<'a> {
    pub const EMPTY: Env<'static> = Env { rows: &[], aggregates: &[], outer: None };

    pub fn new(rows: &'a [Row], outer: Option<&'a Env<'a>>) -> Env<'a> {
        Env { rows, aggregates: &[], outer }
    }

    fn column(&self, of: ColumnRef) -> Cell {
        let mut env = self;
        for _ in 0..of.up {
            env = env.outer.expect("binding counted the queries around");
        }
        env.rows[of.item][of.column].clone()
    }
}

pub fn eval(ctx: &Context<'_>, env: &Env<'_>, expr: &Expr) -> Result<Cell, Halt> {
    match expr {
        Expr::Const(cell) => Ok(cell.clone()),
        Expr::Param(at) => Ok(ctx.params[*at].clone()),
        Expr::Column(of) => Ok(env.column(*of)),
        Expr::Aggregate(at) => Ok(env.aggregates[*at].clone()),
        Expr::And(all) => connected(ctx, env, all, false),
        Expr::Or(all) => connected(ctx, env, all, true),
        Expr::Not(inner) => Ok(match eval(ctx, env, inner)? {
            Cell::Bool(value) => Cell::Bool(!value),
            null => null,
        }),
        Expr::IsNull(inner) => Ok(Cell::Bool(eval(ctx, env, inner)?.is_null())),
        Expr::Is(inner, wanted) => Ok(Cell::Bool(eval(ctx, env, inner)? == Cell::Bool(*wanted))),
        Expr::Compare(op, left, right) => {
            let left = eval(ctx, env, left)?;
            Ok(compare(*op, &left, &eval(ctx, env, right)?))
        }
        Expr::Same(left, right) => {
            let left = eval(ctx, env, left)?;
            Ok(Cell::Bool(left == eval(ctx, env, right)?))
        }
        Expr::Any(op, left, right) => {
            let left = eval(ctx, env, left)?;
            Ok(over_array(*op, &left, &eval(ctx, env, right)?, true))
        }
        Expr::All(op, left, right) => {
            let left = eval(ctx, env, left)?;
            Ok(over_array(*op, &left, &eval(ctx, env, right)?, false))
        }
        Expr::Arithmetic(op, left, right) => {
            let left = eval(ctx, env, left)?;
            Ok(arithmetic::compute(*op, left, eval(ctx, env, right)?)?)
        }
        Expr::Negate(inner) => Ok(arithmetic::negate(eval(ctx, env, inner)?)?),
        Expr::Cast(inner, from, to) => Ok(cast(eval(ctx, env, inner)?, *from, *to)?),
        Expr::Coalesce(all) => {
            for expr in all {
                let cell = eval(ctx, env, expr)?;
                if !cell.is_null() {
                    return Ok(cell);
                }
            }
            Ok(Cell::Null)
        }
        Expr::Case(arms, otherwise) => {
            for (condition, result) in arms {
                if eval(ctx, env, condition)?.is_true() {
                    return eval(ctx, env, result);
                }
            }
            eval(ctx, env, otherwise)
        }
        Expr::Like(left, pattern, any_case) => {
            let (left, pattern) = (eval(ctx, env, left)?, eval(ctx, env, pattern)?);
            let (Some(left), Some(pattern)) = (left.as_str(), pattern.as_str()) else {
                return Ok(Cell::Null);
            };
            Ok(Cell::Bool(match any_case {
                true => function::like(&left.to_lowercase(), &pattern.to_lowercase()),
                false => function::like(left, pattern),
            }))
        }
        Expr::Array(items, ty) => {
            let items = items.iter().map(|item| eval(ctx, env, item));
            array(*ty, items.collect::<Result<_, _>>()?)
        }
        Expr::Call(function, args) => call(ctx, env, *function, args),
        Expr::Scalar(query) => {
            let rows = query::rows(ctx, query, Some(env))?;
            match &rows[..] {
                [] => Ok(Cell::Null),
                [row] => Ok(row[0].clone()),
                _ => {
                    let message = "more than one row returned by a subquery used as an expression";
                    Err(PgError::new("21000", message).into())
                }
            }
        }
        Expr::ArrayOf(query, ty) => {
            let rows = query::rows(ctx, query, Some(env))?;
            array(*ty, rows.iter().map(|row| row[0].clone()).collect())
        }
        Expr::Exists(query) => Ok(Cell::Bool(!query::rows(ctx, query, Some(env))?.is_empty())),
        Expr::In(left, query) => {
            let left = eval(ctx, env, left)?;
            let rows = query::rows(ctx, query, Some(env))?;
            let compared = rows.iter().map(|row| compare(Comparison::Equal, &left, &row[0]));
            Ok(any_of(compared))
        }
    }
}

/// Is the condition true? Null is not.
pub fn holds(ctx: &Context<'_>, env: &Env<'_>, all: &[Expr]) -> Result<bool, Halt> {
    for condition in all {
        if !eval(ctx, env, condition)?.is_true() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// AND and OR: the first that decides; null if none does and one is null.
fn connected(ctx: &Context<'_>, env: &Env<'_>, all: &[Expr], decides: bool) -> Result<Cell, Halt> {
    let mut null = false;
    for expr in all {
        match eval(ctx, env, expr)? {
            Cell::Bool(value) if value == decides => return Ok(Cell::Bool(decides)),
            Cell::Null => null = true,
            _ => {}
        }
    }
    Ok(if null { Cell::Null } else { Cell::Bool(!decides) })
}

pub fn compare(op: Comparison, left: &Cell, right: &Cell) -> Cell {
    match left.is_null() || right.is_null() {
        true => Cell::Null,
        false => Cell::Bool(op.holds(left.cmp(right))),
    }
}

fn any_of(compared: impl Iterator<Item = Cell>) -> Cell {
    let mut null = false;
    for cell in compared {
        match cell {
            Cell::Bool(true) => return Cell::Bool(true),
            Cell::Null => null = true,
            _ => {}
        }
    }
    if null { Cell::Null } else { Cell::Bool(false) }
}

fn over_array(op: Comparison, left: &Cell, right: &Cell, any: bool) -> Cell {
    let Cell::Array(array) = right else { return Cell::Null };
    let compared = array.items.iter().map(|item| compare(op, left, item));
    match any {
        true => any_of(compared),
        false => match any_of(compared.map(negated)) {
            Cell::Bool(value) => Cell::Bool(!value),
            null => null,
        },
    }
}

fn negated(cell: Cell) -> Cell {
    match cell {
        Cell::Bool(value) => Cell::Bool(!value),
        null => null,
    }
}

fn array(ty: Type, items: Vec<Cell>) -> Result<Cell, Halt> {
    Ok(match ty.array {
        true => Array::stacked(ty.scalar, &items)?.into(),
        false => Array::flat(ty.scalar, items).into(),
    })
}

pub fn call(
    ctx: &Context<'_>,
    env: &Env<'_>,
    function: Function,
    args: &[Expr],
) -> Result<Cell, Halt> {
    let args = args.iter().map(|arg| eval(ctx, env, arg)).collect::<Result<Vec<_>, _>>()?;
    if !function::has_effect(function) {
        return Ok(function::apply(ctx, function, &args)?);
    }
    // None of these does anything for a null.
    if args.iter().any(Cell::is_null) {
        return Ok(Cell::Null);
    }
    ctx.memo.call().ok_or(Halt::Call(function, args))
}
