//! What is wrong with a database, and what to do about it.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::errors::{Failure, chain};

/// What kind of trouble there is with a database. The codes are PostgreSQL's
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProblem {
    /// The server cannot be reached, or takes no connection for now: it starts, stops, or has no room
    /// (53300). Nothing was sent.
    Unreachable,
    /// No connection of the saver became free in time, or the saver is closed. Nothing was sent.
    NoConnection,
    /// The connection broke, or the server went silent: whether the call took effect is unknown.
    Unknown,
    /// The user or the password is wrong (28000, 28P01), or the URL lacks the password.
    Login,
    /// There is no such database (3D000) or schema (3F000).
    Missing,
    /// The user may not do this (42501).
    Privilege,
    /// A standby, or a session that may only read (25006).
    ReadOnly,
    /// The server's disk is full (53100).
    DiskFull,
    /// The tables are missing, or belong to another application (42P01, 42703, 42804, 42883).
    Tables,
    /// Whatever else the server said.
    Refused,
}

impl ServerProblem {
    pub(super) fn of(failure: &Failure) -> ServerProblem {
        match failure {
            Failure::Unreachable(_) => ServerProblem::Unreachable,
            Failure::Unavailable(_) | Failure::Moved => ServerProblem::NoConnection,
            Failure::Lost(_) | Failure::Silent(_) => ServerProblem::Unknown,
            Failure::Undone(error) | Failure::Sql(error) => ServerProblem::of_error(error),
            Failure::Saver(_) => ServerProblem::Refused,
        }
    }

    fn of_error(error: &Error) -> ServerProblem {
        match error.code() {
            Some(&(SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION)) => {
                ServerProblem::Login
            }
            Some(&(SqlState::INVALID_CATALOG_NAME | SqlState::INVALID_SCHEMA_NAME)) => {
                ServerProblem::Missing
            }
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => ServerProblem::Privilege,
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => ServerProblem::ReadOnly,
            Some(&SqlState::DISK_FULL) => ServerProblem::DiskFull,
            Some(
                &(SqlState::UNDEFINED_TABLE
                | SqlState::UNDEFINED_COLUMN
                | SqlState::DATATYPE_MISMATCH
                | SqlState::UNDEFINED_FUNCTION),
            ) => ServerProblem::Tables,
            None if lacks_password(error) => ServerProblem::Login,
            _ => ServerProblem::Refused,
        }
    }
}

/// The server asked for a password that we do not have. tokio-postgres says so in words only.
fn lacks_password(error: &Error) -> bool {
    error.source().is_some_and(|source| source.to_string() == "password missing")
}

/// The server's words, and ours where they help.
pub(super) fn explained(error: &Error) -> String {
    let Some(db) = error.as_db_error() else {
        return match lacks_password(error) {
            true => "the server wants a password, and the URL has none".to_owned(),
            false => chain(error),
        };
    };
    let advice = match *db.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check user and password in the URL"
        }
        SqlState::INVALID_CATALOG_NAME => "create the database, or name another one in the URL",
        SqlState::TOO_MANY_CONNECTIONS => {
            "lower PostgresOptions::max_connections, use a pooler, or raise the server's limit"
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "this is a standby or a read-only session; name the primary in the URL"
        }
        SqlState::DISK_FULL => "the server's disk is full; nothing was stored",
        SqlState::INVALID_SCHEMA_NAME => {
            "the schema in search_path does not exist, or the user may not use it"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "the user needs SELECT, INSERT, UPDATE and DELETE on the checkpoint tables, and CREATE on \
             the schema for setting them up"
        }
        SqlState::CHARACTER_NOT_IN_REPERTOIRE | SqlState::UNTRANSLATABLE_CHARACTER => {
            "Postgres keeps no U+0000 in names of threads, namespaces, tasks and channels, nor inside \
             a list or an object of the metadata"
        }
        SqlState::UNDEFINED_TABLE => {
            "the tables are missing; they were dropped, or search_path is another one now"
        }
        SqlState::UNDEFINED_COLUMN | SqlState::DATATYPE_MISMATCH | SqlState::UNDEFINED_FUNCTION => {
            "a table of that name belongs to another application, or to an older version; use a \
             database or a schema of its own"
        }
        _ => "",
    };
    let detail = db.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
    let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
    format!("{}{detail} [{}]{advice}", db.message(), db.code().code())
}
