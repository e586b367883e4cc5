//! What the server says when something is wrong: an ErrorResponse or a NoticeResponse to be.
//!
//! Codes are SQLSTATEs, from <https://www.postgresql.org/docs/15/errcodes-appendix.html>; messages
//! are the server's own words where a client may look at them.

use std::fmt;

/// How bad it is. A fatal error ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Notice,
    Warning,
    Error,
    Fatal,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        }
    }
}

/// An error, or a notice, with the fields that a client can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgError(Box<Report>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub severity: Severity,
    pub code: &'static str,
    pub message: String,
    pub detail: Option<String>,
    pub table: Option<String>,
    pub column: Option<String>,
    pub constraint: Option<String>,
}

pub type Result<T> = std::result::Result<T, PgError>;

impl PgError {
    pub fn new(code: &'static str, message: impl Into<String>) -> PgError {
        PgError(Box::new(Report {
            severity: Severity::Error,
            code,
            message: message.into(),
            detail: None,
            table: None,
            column: None,
            constraint: None,
        }))
    }

    pub fn fatal(code: &'static str, message: impl Into<String>) -> PgError {
        PgError::new(code, message).severe(Severity::Fatal)
    }

    pub fn severe(mut self, severity: Severity) -> PgError {
        self.0.severity = severity;
        self
    }

    pub fn detail(mut self, detail: impl Into<String>) -> PgError {
        self.0.detail = Some(detail.into());
        self
    }

    pub fn table(mut self, table: &str) -> PgError {
        self.0.table = Some(table.to_owned());
        self
    }

    pub fn column(mut self, column: &str) -> PgError {
        self.0.column = Some(column.to_owned());
        self
    }

    pub fn constraint(mut self, constraint: &str) -> PgError {
        self.0.constraint = Some(constraint.to_owned());
        self
    }

    /// 0A000: valid SQL that this model does not know. Never a wrong answer instead.
    pub fn unsupported(what: impl fmt::Display) -> PgError {
        PgError::new("0A000", format!("the model does not support {what}"))
    }

    pub fn report(&self) -> &Report {
        &self.0
    }

    pub fn is_fatal(&self) -> bool {
        self.0.severity == Severity::Fatal
    }
}
