//! Opening databases on the simulated disk.

use rusqlite::{Connection, OpenFlags, Result};

use super::{Disk, place, vfs};
use crate::world::{Process, World};

impl Process {
    /// The path under which SQLite finds this file of the host's disk, on behalf of the handle's
    /// incarnation. Good for rusqlite's own `open` functions with the VFS `durasim`.
    pub fn sqlite_path(&self, file: &str) -> String {
        place::of(self, file)
    }

    /// Opens (or creates) a database on the host's disk.
    ///
    /// A lock that another connection holds is reported as busy at once, whatever the busy timeout:
    /// no virtual time passes inside SQLite. Waiting is for the caller to do, between calls.
    ///
    /// # Errors
    /// `CannotOpen` once the incarnation is dead, and whatever SQLite reports.
    pub fn open_sqlite(&self, file: &str) -> Result<Connection> {
        open(&self.sqlite_path(file))
    }
}

impl World {
    /// Opens a copy of a database, as the host's OS sees it now, WAL and journal included. Nothing
    /// done with it disturbs the disk or the processes that use it.
    ///
    /// # Errors
    /// Whatever SQLite reports; an absent file reads as an empty database.
    pub fn inspect_sqlite(&self, host: &str, file: &str) -> Result<Connection> {
        let original = self.disk(host);
        let copy = Disk::new("inspection", self.chance().clone());
        for suffix in ["", "-wal", "-journal"] {
            let name = format!("{file}{suffix}");
            if let Some(bytes) = original.read(&name) {
                copy.install(&name, bytes);
            }
        }
        const NAME: &str = "(inspection)";
        self.inspect(NAME, Some(copy));
        let opened = open(&format!("/{NAME}@1/{file}")).and_then(|connection| {
            // Reading once opens the WAL, after which the name is not needed any more.
            connection.query_row("pragma schema_version", [], |_| Ok(()))?;
            Ok(connection)
        });
        self.inspect(NAME, None);
        opened
    }
}

fn open(path: &str) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags_and_vfs(path, flags, vfs::NAME)?;
    // rusqlite sets five seconds, which would only mean a hundred tries at the same instant.
    connection.busy_timeout(std::time::Duration::ZERO)?;
    Ok(connection)
}
