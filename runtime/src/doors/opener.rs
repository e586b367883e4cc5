//! How a SQLite connection is opened.

use rusqlite::{Connection, OpenFlags};

/// Opens a SQLite database file. Called where blocking is allowed.
pub trait Opener: Send + Sync {
    fn open(&self, path: &str) -> rusqlite::Result<Connection>;
}

/// The real file system.
pub struct FileOpener;

impl Opener for FileOpener {
    fn open(&self, path: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(path, flags)
    }
}
