//! Binding calls of functions and aggregates.

use sqlparser::ast::{
    DuplicateTreatment, Expr as Ast, Function as Call, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments,
};

use super::coerce::Context;
use super::expr::boxed;
use super::{Binder, Bound, names};
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::function::{aggregate_named, named};
use crate::postgres::sql::{Aggregate, AggregateKind, Comparison, Expr, Function};
use crate::postgres::types::{Cell, Scalar, Type};

impl Binder<'_> {
    pub(super) fn call(&mut self, call: &Call) -> Bound<Expr> {
        let name = names::object(&call.name)?;
        let plain = call.within_group.is_empty()
            && call.over.is_none()
            && call.null_treatment.is_none()
            && matches!(call.parameters, FunctionArguments::None);
        if !plain {
            return Err(PgError::unsupported(format_args!("the call {call}")));
        }
        if let Some(kind) = aggregate_named(&name) {
            return self.aggregate(kind, call);
        }
        if let (FunctionArguments::Subquery(query), "array") = (&call.args, &name[..]) {
            return self.array_of(query);
        }
        let args = self.plain_arguments(call)?;
        match &name[..] {
            "coalesce" => {
                let (all, ty) = self.all_alike("COALESCE", args)?;
                Ok((Expr::Coalesce(all), ty))
            }
            "greatest" | "least" => {
                let function = if name == "least" { Function::Least } else { Function::Greatest };
                let (all, ty) = self.all_alike(&name.to_uppercase(), args)?;
                Ok((Expr::Call(function, all), ty))
            }
            "nullif" => match <[_; 2]>::try_from(args) {
                Ok([left, right]) => {
                    let (left, right, ty) = self.comparable(left, "=", right)?;
                    let equal = Expr::Compare(Comparison::Equal, boxed(left.clone()), boxed(right));
                    let null = Expr::Const(Cell::Null);
                    Ok((Expr::Case(vec![(equal, null)], boxed(left)), ty))
                }
                Err(_) => Err(PgError::new("42601", "NULLIF takes two arguments")),
            },
            "jsonb_build_object" => {
                let args =
                    args.into_iter().map(|arg| self.settled(arg)).collect::<Result<Vec<_>>>()?;
                let args = args.into_iter().map(|(arg, ty)| to_json(arg, ty)).collect();
                Ok((Expr::Call(Function::JsonBuildObject, args), Type::JSONB))
            }
            "to_jsonb" => match <[_; 1]>::try_from(args) {
                Ok([arg]) => {
                    let (arg, ty) = self.settled(arg)?;
                    Ok((to_json(arg, ty), Type::JSONB))
                }
                Err(_) => Err(PgError::new("42883", "function to_jsonb takes one argument")),
            },
            "cardinality" | "array_length" if args.first().is_some_and(|(_, ty)| ty.array) => {
                let function = match &name[..] {
                    "cardinality" => Function::Cardinality,
                    _ => Function::ArrayLength,
                };
                let args = args.into_iter().map(|(arg, _)| arg).collect();
                Ok((Expr::Call(function, args), Type::INT4))
            }
            "array_append" => match <[_; 2]>::try_from(args) {
                Ok([(list, ty), item]) if ty.array => {
                    let item = self.argument(item, ty.element())?;
                    Ok((Expr::Call(Function::ArrayAppend, vec![list, item]), ty))
                }
                _ => Err(PgError::new("42883", "function array_append takes an array and a value")),
            },
            _ => self.named_call(&name, args),
        }
    }

    /// `ARRAY(query)`
    fn array_of(&mut self, query: &sqlparser::ast::Query) -> Bound<Expr> {
        let (query, fields) = self.query(query, true)?;
        self.lockable(&query)?;
        match &fields[..] {
            [field] if !field.ty.array => {
                let ty = Type { array: true, ..field.ty };
                Ok((Expr::ArrayOf(Box::new(query), field.ty), ty))
            }
            _ => Err(PgError::new("42601", "subquery must return only one column")),
        }
    }

    fn plain_arguments(&mut self, call: &Call) -> Result<Vec<(Expr, Type)>> {
        let list = match &call.args {
            FunctionArguments::None => return Ok(Vec::new()),
            FunctionArguments::List(list) => list,
            FunctionArguments::Subquery(_) => {
                return Err(PgError::unsupported(format_args!("the call {call}")));
            }
        };
        if list.duplicate_treatment.is_some() || !list.clauses.is_empty() || call.filter.is_some() {
            return Err(PgError::unsupported(format_args!("the call {call}")));
        }
        if names::object(&call.name)? == "make_interval" {
            return self.interval_parts(&list.args);
        }
        list.args.iter().map(|arg| self.expr(positional(arg)?)).collect()
    }

    /// `make_interval(secs => x)`, and of the other names those that are used in leases.
    fn interval_parts(&mut self, args: &[FunctionArg]) -> Result<Vec<(Expr, Type)>> {
        const NAMES: [&str; 4] = ["days", "hours", "mins", "secs"];
        let mut parts: Vec<(Expr, Type)> =
            NAMES.iter().map(|_| (Expr::Const(Cell::Null), Type::UNKNOWN)).collect();
        for arg in args {
            let (name, value) = match arg {
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => (name, value),
                FunctionArg::ExprNamed {
                    name: Ast::Identifier(name),
                    arg: FunctionArgExpr::Expr(value),
                    ..
                } => (name, value),
                _ => return Err(PgError::unsupported("make_interval without names")),
            };
            let name = names::ident(name);
            let Some(at) = NAMES.iter().position(|known| *known == name) else {
                return Err(PgError::unsupported(format_args!("make_interval with {name}")));
            };
            parts[at] = self.expr(value)?;
        }
        Ok(parts)
    }

    /// The argument as the type that is wanted.
    ///
    /// # Errors
    /// 42883.
    pub(super) fn argument(&mut self, (expr, ty): (Expr, Type), wanted: Type) -> Result<Expr> {
        let coerced = self.coerced(expr, ty, wanted, Context::Implicit)?;
        let (ty, wanted) = (ty.name(), wanted.name());
        coerced.ok_or_else(|| {
            PgError::new("42883", format!("an argument is of type {ty}, where {wanted} is wanted"))
        })
    }

    /// A call of a function with fixed types: the first signature that takes the arguments, those
    /// whose types are equal before those that have to be coerced.
    pub(super) fn named_call(&mut self, name: &str, args: Vec<(Expr, Type)>) -> Bound<Expr> {
        if name == "make_interval" {
            let wanted = [Type::INT4, Type::INT4, Type::INT4, Type::FLOAT8];
            let args = args.into_iter().zip(wanted).map(|(arg, ty)| self.argument(arg, ty));
            let args = args.collect::<Result<_>>()?;
            return Ok((Expr::Call(Function::MakeInterval, args), Type::INTERVAL));
        }
        let mut signatures = named(name);
        signatures.retain(|signature| signature.arguments.len() == args.len());
        let equal = |wanted: &[Type]| wanted.iter().zip(&args).all(|(ty, (_, arg))| ty == arg);
        signatures.sort_by_key(|signature| !equal(&signature.arguments));
        for signature in signatures {
            let fits = signature.arguments.iter().zip(&args);
            let mut coerced = Vec::new();
            for (wanted, (arg, ty)) in fits {
                if ty.is_unknown() || ty == wanted || (ty.is_integer() && wanted.is_number()) {
                    coerced.push((arg.clone(), *ty, *wanted));
                } else if ty.is_string() && wanted.is_string() {
                    coerced.push((arg.clone(), *wanted, *wanted));
                } else if *ty == Type::NUMERIC && *wanted == Type::FLOAT8 {
                    coerced.push((arg.clone(), *ty, *wanted));
                }
            }
            if coerced.len() < args.len() {
                continue;
            }
            let mut all = Vec::new();
            for (arg, ty, wanted) in coerced {
                match self.coerced(arg, ty, wanted, Context::Implicit)? {
                    Some(arg) => all.push(arg),
                    None => break,
                }
            }
            if all.len() == args.len() {
                return Ok((Expr::Call(signature.function, all), signature.result));
            }
        }
        let types: Vec<String> = args.iter().map(|(_, ty)| ty.name()).collect();
        let types = types.join(", ");
        Err(PgError::new("42883", format!("function {name}({types}) does not exist in the model")))
    }

    fn aggregate(&mut self, kind: AggregateKind, call: &Call) -> Bound<Expr> {
        let FunctionArguments::List(list) = &call.args else {
            return Err(PgError::unsupported(format_args!("the call {call}")));
        };
        if self.scopes.last().is_none_or(|scope| scope.aggregates.is_none()) {
            return Err(PgError::new("42803", "aggregate functions are not allowed here"));
        }
        // Aggregates do not nest.
        let collected = self.scope().aggregates.take();
        let bound = self.aggregate_parts(kind, call, list);
        self.scope().aggregates = collected;
        let (aggregate, ty) = bound?;
        let all = self.scope().aggregates.as_mut().expect("it was put back");
        all.push(aggregate);
        Ok((Expr::Aggregate(all.len() - 1), ty))
    }

    fn aggregate_parts(
        &mut self,
        kind: AggregateKind,
        call: &Call,
        list: &sqlparser::ast::FunctionArgumentList,
    ) -> Result<(Aggregate, Type)> {
        let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
        let filter = match &call.filter {
            None => None,
            Some(filter) => {
                let bound = self.expr(filter)?;
                Some(self.condition("FILTER", bound)?)
            }
        };
        let mut order = Vec::new();
        for clause in &list.clauses {
            let FunctionArgumentClause::OrderBy(keys) = clause else {
                return Err(PgError::unsupported(format_args!("the call {call}")));
            };
            for key in keys {
                order.push(self.sort(key, None)?);
            }
        }
        if let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = &list.args[..] {
            let rows = Aggregate {
                kind: AggregateKind::CountRows,
                argument: None,
                separator: None,
                ty: Type::INT8,
                distinct: false,
                filter,
                order,
            };
            return match kind {
                AggregateKind::Count => Ok((rows, Type::INT8)),
                _ => Err(PgError::unsupported(format_args!("the call {call}"))),
            };
        }
        let args = list.args.iter().map(|arg| self.expr(positional(arg)?));
        let mut args = args.collect::<Result<Vec<_>>>()?;
        let separator = match (kind, args.len()) {
            (AggregateKind::StringAgg, 2) => {
                let separator = args.remove(1);
                Some(self.argument(separator, Type::TEXT)?)
            }
            (AggregateKind::StringAgg, _) => None,
            _ => None,
        };
        let Ok([argument]) = <[_; 1]>::try_from(args) else {
            return Err(PgError::new("42883", "an aggregate takes one argument"));
        };
        let (mut argument, mut ty) = self.settled(argument)?;
        let result = match kind {
            AggregateKind::Count | AggregateKind::CountRows => Type::INT8,
            AggregateKind::Sum => match ty.scalar {
                _ if ty.array => return Err(PgError::unsupported("the sum of arrays")),
                Scalar::Int2 | Scalar::Int4 => Type::INT8,
                Scalar::Int8 => Type::NUMERIC,
                Scalar::Float8 => Type::FLOAT8,
                _ => return Err(PgError::unsupported(format_args!("the sum of {}", ty.name()))),
            },
            AggregateKind::BoolAnd | AggregateKind::BoolOr => {
                argument = self.condition("an aggregate", (argument, ty))?;
                Type::BOOL
            }
            AggregateKind::StringAgg => {
                argument = self.argument((argument, ty), Type::TEXT)?;
                Type::TEXT
            }
            AggregateKind::JsonAgg => {
                argument = to_json(argument, ty);
                ty = Type::JSONB;
                Type::JSONB
            }
            AggregateKind::Min | AggregateKind::Max => match ty.scalar {
                Scalar::Bool | Scalar::Jsonb | Scalar::Bytea | Scalar::Void => {
                    let name = ty.name();
                    let message = format!("function min or max of {name} does not exist");
                    return Err(PgError::new("42883", message));
                }
                Scalar::Varchar => Type::TEXT,
                _ => ty,
            },
            AggregateKind::ArrayAgg => Type { array: true, ..ty },
        };
        let aggregate =
            Aggregate { kind, argument: Some(argument), separator, ty, distinct, filter, order };
        Ok((aggregate, result))
    }
}

fn to_json(arg: Expr, ty: Type) -> Expr {
    match ty {
        Type::JSONB => arg,
        _ => Expr::Call(Function::ToJson, vec![arg]),
    }
}

pub(super) fn positional(arg: &FunctionArg) -> Result<&Ast> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        other => Err(PgError::unsupported(format_args!("the argument {other}"))),
    }
}
