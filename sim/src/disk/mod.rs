//! The disk of a host: files in memory, with the semantics of a page cache over a platter.
//!
//! Processes reach it through SQLite, by a VFS named `durasim`. A kill keeps what the OS had; a power
//! cut keeps what was synced, plus part of the rest, possibly torn. Handles of a fenced process fail
//! everything that could be seen by others, and their locks are gone from the moment of the fence.

mod content;
mod handle;
mod locks;
mod log;
mod memory;
mod open;
mod place;
mod shm;
mod vfs;

pub use content::Lost;
pub use log::{DiskLog, Files, Replay};
pub(crate) use vfs::{begin_run, install};

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::world::Fence;
use crate::{Chance, Value};
use content::Content;
use locks::Locks;
use log::Operation;
use shm::Shm;

/// A host's disk; cloning gives another handle to the same disk.
#[derive(Clone)]
pub struct Disk {
    inner: Arc<Inner>,
}

struct Inner {
    host: Arc<str>,
    chance: Chance,
    state: Mutex<Directory>,
    writes: AtomicU64,
    syncs: AtomicU64,
    /// Bytes that all files together may have; `u64::MAX` for as many as they like.
    capacity: AtomicU64,
    has_log: AtomicBool,
    log: Mutex<DiskLog>,
}

#[derive(Default)]
struct Directory {
    files: BTreeMap<String, SharedFile>,
    /// Deleted, but the deletion is not on the platter: a power cut may bring them back.
    undead: BTreeMap<String, SharedFile>,
}

type SharedFile = Arc<Mutex<File>>;

#[derive(Default)]
struct File {
    content: Content,
    locks: Locks,
    shm: Option<Shm>,
    /// Its name is on the platter: it has been synced once, as file systems then write the name too.
    named: bool,
    handles: u64,
}

impl Disk {
    pub(crate) fn new(host: &str, chance: Chance) -> Self {
        let inner = Inner {
            host: host.into(),
            chance,
            state: Mutex::default(),
            writes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            capacity: AtomicU64::new(u64::MAX),
            has_log: AtomicBool::new(false),
            log: Mutex::default(),
        };
        Disk { inner: Arc::new(inner) }
    }

    /// The same files on a disk of its own, for other choices at a power cut.
    fn copy(&self, chance: Chance) -> Disk {
        let copy = Disk::new(self.host(), chance);
        let own = |files: &BTreeMap<String, SharedFile>| {
            let own = |(name, file): (&String, &SharedFile)| {
                let file = lock(file);
                let (content, named) = (file.content.clone(), file.named);
                (name.clone(), Arc::new(Mutex::new(File { content, named, ..File::default() })))
            };
            files.iter().map(own).collect()
        };
        {
            let state = lock(&self.inner.state);
            let copied = Directory { files: own(&state.files), undead: own(&state.undead) };
            *lock(&copy.inner.state) = copied;
        }
        copy
    }

    /// All files with their bytes, as the OS sees them.
    pub fn all(&self) -> Files {
        let state = lock(&self.inner.state);
        let bytes = |file: &SharedFile| lock(file).content.os.clone();
        state.files.iter().map(|(name, file)| (name.clone(), bytes(file))).collect()
    }

    /// Keeps a log from now on. The disk should be empty.
    pub fn keep_log(&self) {
        self.inner.has_log.store(true, Ordering::Relaxed);
    }

    /// How many operations the log has.
    pub fn log_len(&self) -> usize {
        lock(&self.inner.log).len()
    }

    pub fn log(&self) -> DiskLog {
        lock(&self.inner.log).clone()
    }

    fn note(&self, operation: impl FnOnce() -> Operation) {
        if self.inner.has_log.load(Ordering::Relaxed) {
            lock(&self.inner.log).operations.push(operation());
        }
    }

    /// All files together get no larger than this; a write that would make them is refused as on a
    /// full disk. `None` takes the limit away.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.inner.capacity.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// May this file get as long as that?
    fn has_room(&self, name: &str, len: u64) -> bool {
        let capacity = self.inner.capacity.load(Ordering::Relaxed);
        if capacity == u64::MAX {
            return true;
        }
        let state = lock(&self.inner.state);
        let size = |file: &SharedFile| lock(file).content.os.len() as u64;
        let before = state.files.get(name).map_or(0, size);
        let used: u64 = state.files.values().map(size).sum();
        len <= before || used - before + len <= capacity
    }

    fn sync(&self, file: &SharedFile, is_journal: bool) {
        let newly_named = {
            let mut file = lock(file);
            file.content.sync();
            !std::mem::replace(&mut file.named, true)
        };
        if newly_named && is_journal {
            self.sync_directory();
        }
    }

    pub fn host(&self) -> &str {
        &self.inner.host
    }

    /// The names of all files, as the OS sees them.
    pub fn files(&self) -> Vec<String> {
        lock(&self.inner.state).files.keys().cloned().collect()
    }

    /// The bytes of a file, as the OS sees them; None if there is no such file.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.find(name).map(|file| lock(&file).content.os.clone())
    }

    /// Reads the bytes of a file in place, as the OS sees them; None if there is no such file. The
    /// closure must not use the same file by another way.
    pub fn with<T>(&self, name: &str, read: impl FnOnce(Option<&[u8]>) -> T) -> T {
        match self.find(name) {
            Some(file) => read(Some(&lock(&file).content.os)),
            None => read(None),
        }
    }

    /// How many writes have reached this disk.
    pub fn write_count(&self) -> u64 {
        self.inner.writes.load(Ordering::Relaxed)
    }

    /// How many syncs have reached this disk.
    pub fn sync_count(&self) -> u64 {
        self.inner.syncs.load(Ordering::Relaxed)
    }

    /// Puts a file there, wholly synced, as if it had been there before the world began.
    pub fn install(&self, name: &str, bytes: Vec<u8>) {
        let file = File { content: Content::settled(bytes), named: true, ..File::default() };
        lock(&self.inner.state).files.insert(name.to_owned(), Arc::new(Mutex::new(file)));
    }

    fn find(&self, name: &str) -> Option<SharedFile> {
        lock(&self.inner.state).files.get(name).cloned()
    }

    fn create(&self, name: &str) -> SharedFile {
        self.note(|| Operation::Create { name: name.into() });
        lock(&self.inner.state).files.entry(name.to_owned()).or_default().clone()
    }

    /// False if there is no such file.
    fn delete(&self, name: &str, synced: bool) -> bool {
        let mut state = lock(&self.inner.state);
        let Some(file) = state.files.remove(name) else { return false };
        self.note(|| Operation::Delete { name: name.into(), is_synced: synced });
        if synced {
            state.undead.remove(name);
        } else if lock(&file).named {
            state.undead.insert(name.to_owned(), file);
        }
        true
    }

    /// Puts every creation and deletion on the platter. SQLite's own VFS for Unix does so when it
    /// first syncs a journal or WAL; the main database's name comes with its own first sync, as on
    /// ext4.
    fn sync_directory(&self) {
        let mut state = lock(&self.inner.state);
        state.undead.clear();
        state.files.values().for_each(|file| lock(file).named = true);
    }

    /// The process is dead: its locks and mappings go, though its handles are still to be closed.
    pub(crate) fn fence(&self, fence: &Fence) {
        let state = lock(&self.inner.state);
        for file in state.files.values().chain(state.undead.values()) {
            let mut file = lock(file);
            file.locks.release(fence);
            if file.shm.as_mut().is_some_and(|shm| {
                shm.release(fence);
                shm.is_unused()
            }) {
                file.shm = None;
            }
        }
    }

    /// All processes of the host are fenced already.
    pub(crate) fn cut_power(&self) -> Lost {
        let mut state = lock(&self.inner.state);
        let stream = |name: &str| {
            self.inner.chance.stream("disk.power_cut", &format!("{}:{name}", self.inner.host))
        };
        let mut total = Lost::default();
        // A deletion that never reached the platter may not have happened, and a new file may be
        // without a name.
        for (name, file) in std::mem::take(&mut state.undead) {
            let replaced = state.files.get(&name).is_some_and(|new| lock(new).named);
            if !replaced && stream(&name).ratio(1, 2) {
                state.files.insert(name, file);
                total.lost += 1;
            }
        }
        state.files.retain(|name, file| {
            let mut file = lock(file);
            total += file.content.cut_power(&stream(name));
            let survives = file.named || stream(name).ratio(1, 2);
            file.named = true;
            survives
        });
        total
    }
}

impl Lost {
    pub(crate) fn fields(self) -> [(&'static str, Value); 3] {
        [("kept", self.kept.into()), ("lost", self.lost.into()), ("torn", self.torn.into())]
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("host", &self.host()).field("files", &self.files()).finish()
    }
}
