//! How a SQLite connection is opened, and whose turn it is to write to its file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use parking_lot::{FairMutex, FairMutexGuard};
use rusqlite::{Connection, OpenFlags};

/// Opens a SQLite database file. Called where blocking is allowed.
pub trait Opener: Send + Sync {
    fn open(&self, path: &str) -> rusqlite::Result<Connection>;

    /// What all of this process share who write to the file at `path`, which was opened before. One
    /// of its own is right where nothing else of the process can come in between.
    fn turn(&self, _path: &str) -> Turn {
        Turn::default()
    }
}

/// Whoever writes to a file waits for its turn, so that a process is one writer: SQLite would refuse
/// the second one, and only let it ask again. Clones share it. First come, first served.
#[derive(Clone, Default)]
pub struct Turn(Arc<FairMutex<()>>);

impl Turn {
    /// Blocks until the others before have had theirs. It is over when what this gives is dropped.
    pub fn wait(&self) -> FairMutexGuard<'_, ()> {
        self.0.lock()
    }
}

/// The real file system.
pub struct FileOpener;

/// The turns of this process, by path without symbolic links. One is all that a path that was removed
/// and made anew needs, too. No simulated process comes by here.
static TURNS: Mutex<BTreeMap<PathBuf, Weak<FairMutex<()>>>> = Mutex::new(BTreeMap::new());

impl Opener for FileOpener {
    fn open(&self, path: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(path, flags)
    }

    /// A database that is no file, as one in memory, has one connection and no need of it.
    fn turn(&self, path: &str) -> Turn {
        let Ok(path) = std::fs::canonicalize(path) else { return Turn::default() };
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&path).and_then(Weak::upgrade) {
            return Turn(turn);
        }
        let turn = Turn::default();
        turns.insert(path, Arc::downgrade(&turn.0));
        turn
    }
}
