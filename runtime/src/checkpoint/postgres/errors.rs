//! What went wrong with the server, and what to do about it.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::connection::Again;
use super::problem::explained;
use crate::checkpoint::saver::SaverError;

/// Why one attempt at a call failed.
pub(super) enum Failure {
    /// The server could not be reached, or would not have us for now. Nothing was sent.
    Unreachable(String),
    /// There was no connection to be had from the pool. Nothing was sent.
    Unavailable(String),
    /// The connection went away in the middle: whether the call took effect is unknown.
    Lost(String),
    /// There was no answer within the limit: whether the call took effect is unknown.
    Silent(Duration),
    /// The session is not the one in which its statements were prepared, or has lost them. Nothing was
    /// done.
    Moved,
    /// The server undid the call in favour of another one; it may work the next time.
    Undone(Error),
    Sql(Error),
    Saver(SaverError),
}

impl Failure {
    /// Is it worth another attempt, of a call that may or may not take effect twice?
    pub fn may_pass(&self, again: Again) -> bool {
        match self {
            Failure::Unreachable(_) | Failure::Undone(_) | Failure::Moved => true,
            Failure::Lost(_) => again == Again::Yes,
            Failure::Unavailable(_) | Failure::Silent(_) | Failure::Sql(_) | Failure::Saver(_) => {
                false
            }
        }
    }
}

impl Failure {
    /// The failure of a call that was made before, and may have taken effect then.
    pub fn after_a_loss(self) -> Failure {
        match self {
            Failure::Unreachable(problem) | Failure::Unavailable(problem) => Failure::Lost(problem),
            Failure::Sql(error) if error.code().is_some_and(takes_nothing) => {
                Failure::Lost(explained(&error))
            }
            failure => failure,
        }
    }

    /// If the server is away: the failure of another call, which was not made.
    pub fn of_the_next(&self) -> Option<Failure> {
        match self {
            Failure::Unreachable(problem) | Failure::Lost(problem) => {
                Some(Failure::Unreachable(problem.clone()))
            }
            Failure::Unavailable(problem) => Some(Failure::Unavailable(problem.clone())),
            _ => None,
        }
    }
}

impl From<SaverError> for Failure {
    fn from(error: SaverError) -> Failure {
        Failure::Saver(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let is_lost = is_broken(&error) || error.code().is_some_and(is_going_down);
        match error.code() {
            _ if is_lost => Failure::Lost(chain(&error)),
            Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => {
                Failure::Undone(error)
            }
            _ => Failure::Sql(error),
        }
    }
}

/// The connection is gone, and nobody said why.
fn is_broken(error: &Error) -> bool {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    // What cannot be sent is told as input that is not valid, and nothing is broken.
    error.is_closed() || io.is_some_and(|io| io.kind() != io::ErrorKind::InvalidInput)
}

/// The server ends this connection; another one may be had.
fn is_going_down(code: &SqlState) -> bool {
    code.code().starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ]
        .contains(code)
        || code.code() == "57P05" // idle_session_timeout
}

/// The server is there, and does not let us in, or lets nobody store anything. It may be another one
/// than a moment ago.
fn takes_nothing(code: &SqlState) -> bool {
    const CLASSES: [&str; 3] = ["28", "3D", "53"];
    CLASSES.iter().any(|class| code.code().starts_with(class))
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// A connection that could not be made.
pub(super) fn refused(authority: &str, error: Error) -> Failure {
    let waits = [SqlState::CANNOT_CONNECT_NOW, SqlState::TOO_MANY_CONNECTIONS];
    match error.code() {
        Some(code) if waits.contains(code) || is_going_down(code) => {
            Failure::Unreachable(format!("{authority} takes no connection: {}", explained(&error)))
        }
        Some(_) => Failure::Sql(error),
        None if is_broken(&error) => {
            Failure::Unreachable(format!("cannot reach postgres at {authority}: {}", chain(&error)))
        }
        None => Failure::Sql(error),
    }
}

/// An error with its causes, which tokio-postgres leaves out of its text.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
