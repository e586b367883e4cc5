//! What is wrong with a file, and what to do about it.

use rusqlite::ErrorCode;

/// Why a file cannot be used. Each says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    #[error(
        "it is not a database, or an encrypted or damaged one; name another file or move it away"
    )]
    NotADatabase,
    /// SQLite's `PRAGMA application_id` is set, and there are no checkpoints in it.
    #[error(
        "it belongs to another program (application_id {0:#010x}) and was left as it is; give the \
         checkpoints a file of their own"
    )]
    OtherProgram(i32),
    /// A table has the name of one of LangGraph's and not its columns.
    #[error(
        "its table {table:?} is not one of langgraph-checkpoint-sqlite 3 ({problem}), and was left \
         as it is; give the checkpoints a file of their own"
    )]
    OtherTable { table: &'static str, problem: String },
    #[error(
        "it cannot be written; see that the file and its folder are not read-only for this process"
    )]
    ReadOnly,
    #[error(
        "it cannot be opened; see that its folder exists and that this process may write there"
    )]
    CannotOpen,
    #[error(
        "the disk is full, and this was not stored; when there is room again, the saver goes on"
    )]
    DiskFull,
}

impl FileProblem {
    pub(super) fn of(error: &rusqlite::Error) -> Option<FileProblem> {
        match error.sqlite_error_code()? {
            ErrorCode::NotADatabase => Some(FileProblem::NotADatabase),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Some(FileProblem::ReadOnly),
            ErrorCode::CannotOpen => Some(FileProblem::CannotOpen),
            ErrorCode::DiskFull => Some(FileProblem::DiskFull),
            _ => None,
        }
    }
}
