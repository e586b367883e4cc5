//! How a SQLite connection is opened, and whose turn it is to write to its file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use parking_lot::{FairMutex, FairMutexGuard};
use rusqlite::{Connection, OpenFlags};

/// Opens a SQLite database file. Called where blocking is allowed.
pub trait Opener: Send + Sync {
    fn open(&self, path: &str) -> rusqlite::Result<Connection>;

    /// What all connections of this process share that write to the file of this one. One of its own
    /// is right where nothing else of the process can come in between; it only costs pauses where it
    /// is not.
    fn turn(&self, _connection: &Connection) -> Turn {
        Turn::default()
    }
}

/// Whoever writes to a file waits for its turn, so that a process is one writer: SQLite would refuse
/// the second one, and only let it ask again later. Clones share it.
#[derive(Clone, Default)]
pub struct Turn(Arc<FairMutex<()>>);

/// A turn that is ours, until this is dropped.
#[must_use]
pub struct Taken<'a> {
    _lock: FairMutexGuard<'a, ()>,
}

impl Turn {
    /// How long a thread waits. A commit is over sooner; what takes longer, such as pruning many
    /// threads, is waited for without one.
    pub const LONGEST_WAIT: Duration = Duration::from_millis(100);

    /// None while it is somebody else's.
    pub fn try_take(&self) -> Option<Taken<'_>> {
        self.0.try_lock().map(|lock| Taken { _lock: lock })
    }

    /// Blocks while it is somebody else's, for [`Turn::LONGEST_WAIT`] at most, and in the order of
    /// those who wait.
    pub fn take(&self) -> Option<Taken<'_>> {
        self.0.try_lock_for(Turn::LONGEST_WAIT).map(|lock| Taken { _lock: lock })
    }
}

/// The real file system.
pub struct FileOpener;

/// The turns of this process, by the path of the file. If that was removed and made anew, one will do
/// for both. No simulated process comes by here.
static TURNS: Mutex<BTreeMap<String, Weak<FairMutex<()>>>> = Mutex::new(BTreeMap::new());

impl Opener for FileOpener {
    fn open(&self, path: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(path, flags)
    }

    fn turn(&self, connection: &Connection) -> Turn {
        // SQLite has made it absolute and followed symbolic links. A database in memory has none.
        let Some(path) = connection.path().filter(|path| !path.is_empty()) else {
            return Turn::default();
        };
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(path).and_then(Weak::upgrade) {
            return Turn(turn);
        }
        let turn = Turn::default();
        turns.insert(path.to_owned(), Arc::downgrade(&turn.0));
        turn
    }
}
