//! Binding what concerns the session and its transaction only.

use sqlparser::ast::{
    ContextModifier, DiscardObject, Expr as Ast, Reset, Set, Statement, TransactionIsolationLevel,
    TransactionMode, Value,
};

use super::names;
use crate::postgres::error::{PgError, Result};
use crate::postgres::sql::{Field, SessionAction};
use crate::postgres::types::Type;

/// `None` if the statement is of another kind.
pub(super) fn session(
    statement: &Statement,
) -> Result<Option<(SessionAction, Option<Vec<Field>>)>> {
    let refused = || PgError::unsupported(format_args!("the statement {statement}"));
    let action = match statement {
        Statement::StartTransaction { modes, begin, modifier: None, statements, .. }
            if statements.is_empty() =>
        {
            read_committed(modes)?;
            SessionAction::Begin { start: !begin }
        }
        Statement::Commit { chain: false, modifier: None, .. } => SessionAction::Commit,
        Statement::Rollback { chain: false, savepoint: None } => SessionAction::Rollback,
        Statement::Rollback { chain: false, savepoint: Some(name) } => {
            SessionAction::RollbackTo(names::ident(name))
        }
        Statement::Commit { .. } | Statement::Rollback { .. } => return Err(refused()),
        Statement::Savepoint { name } => SessionAction::Savepoint(names::ident(name)),
        Statement::ReleaseSavepoint { name } => SessionAction::Release(names::ident(name)),
        Statement::Set(set) => self::set(set)?,
        Statement::Reset(reset) => match &reset.reset {
            Reset::ALL => SessionAction::ResetAll,
            Reset::ConfigurationParameter(name) => SessionAction::Reset(setting_name(name)),
            Reset::SessionAuthorization => return Err(refused()),
        },
        Statement::ShowVariable { variable } => {
            let words: Vec<String> = variable.iter().map(names::ident).collect();
            let name = match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["transaction", "isolation", "level"] => "transaction_isolation".to_owned(),
                ["time", "zone"] => "timezone".to_owned(),
                _ => words.join("."),
            };
            let field =
                Field { name: shown_name(&name).to_owned(), ty: Type::TEXT, origin: (0, 0) };
            return Ok(Some((SessionAction::Show(name), Some(vec![field]))));
        }
        Statement::Discard { object_type: DiscardObject::ALL } => SessionAction::DiscardAll,
        Statement::Deallocate { name, .. } => {
            let name = names::ident(name);
            SessionAction::Deallocate((name != "all").then_some(name))
        }
        _ => return Ok(None),
    };
    Ok(Some((action, None)))
}

/// Settings with capitals in the name that SHOW answers with.
fn shown_name(name: &str) -> &str {
    match name {
        "timezone" => "TimeZone",
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        other => other,
    }
}

fn setting_name(name: &sqlparser::ast::ObjectName) -> String {
    name.to_string().to_lowercase()
}

fn read_committed(modes: &[TransactionMode]) -> Result<()> {
    for mode in modes {
        match mode {
            TransactionMode::IsolationLevel(
                TransactionIsolationLevel::ReadCommitted
                | TransactionIsolationLevel::ReadUncommitted,
            ) => {}
            TransactionMode::AccessMode(sqlparser::ast::TransactionAccessMode::ReadWrite) => {}
            other => return Err(PgError::unsupported(format_args!("transactions with {other}"))),
        }
    }
    Ok(())
}

fn set(set: &Set) -> Result<SessionAction> {
    match set {
        Set::SingleAssignment { scope, hivevar: false, variable, values } => {
            let local = matches!(scope, Some(ContextModifier::Local));
            let values = values.iter().map(value).collect::<Result<Vec<_>>>()?;
            let is_default = values.len() == 1 && values[0].eq_ignore_ascii_case("default");
            let value = (!is_default).then(|| values.join(", "));
            Ok(SessionAction::Set { name: setting_name(variable), value, local })
        }
        Set::SetTimeZone { local, value: zone } => {
            let (name, local) = ("timezone".to_owned(), *local);
            Ok(SessionAction::Set { name, value: Some(value(zone)?), local })
        }
        Set::SetNames { charset_name, collation_name: None } => Ok(SessionAction::Set {
            name: "client_encoding".to_owned(),
            value: Some(charset_name.value.clone()),
            local: false,
        }),
        Set::SetTransaction { modes, snapshot: None, session } => {
            read_committed(modes)?;
            let name = match session {
                true => "default_transaction_isolation",
                false => "transaction_isolation",
            };
            let value = Some("read committed".to_owned());
            Ok(SessionAction::Set { name: name.to_owned(), value, local: !session })
        }
        other => Err(PgError::unsupported(format_args!("the statement {other}"))),
    }
}

fn value(ast: &Ast) -> Result<String> {
    match ast {
        Ast::Identifier(name) => Ok(name.value.clone()),
        Ast::Value(value) => match &value.value {
            Value::Number(digits, _) => Ok(digits.clone()),
            Value::Boolean(value) => Ok(if *value { "on" } else { "off" }.to_owned()),
            other => {
                let text = other.clone().into_string();
                text.ok_or_else(|| PgError::unsupported(format_args!("the value {other}")))
            }
        },
        Ast::UnaryOp { .. } => Ok(ast.to_string()),
        other => Err(PgError::unsupported(format_args!("the value {other}"))),
    }
}
