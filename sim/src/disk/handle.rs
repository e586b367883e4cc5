//! What SQLite calls on an open file.
//!
//! These run inside C code: nothing here may panic. Every one asks the fence first.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::ffi::*;

use super::log::Operation;
use super::shm::{self, Regions};
use super::{Disk, SharedFile};
use crate::lock::lock;
use crate::world::Fence;

/// What SQLite allocates for us: its own head, then our pointer.
#[repr(C)]
pub(super) struct Raw {
    head: sqlite3_file,
    handle: *mut Handle,
}

pub(super) struct Handle {
    pub(super) file: SharedFile,
    pub(super) id: u64,
    /// None for the temporary files that SQLite makes for itself.
    pub(super) owner: Option<(Disk, Fence)>,
    pub(super) name: Arc<str>,
    /// A journal or WAL: its first sync is followed by one of the directory.
    pub(super) syncs_directory: bool,
    pub(super) delete_on_close: bool,
    pub(super) regions: Option<Regions>,
}

impl Handle {
    fn is_fenced(&self) -> bool {
        self.owner.as_ref().is_some_and(|(_, fence)| !fence.is_up())
    }
}

/// # Safety
/// `raw` is memory that SQLite allocated for a file of ours.
pub(super) unsafe fn attach(raw: *mut sqlite3_file, handle: Handle) {
    let raw = raw.cast::<Raw>();
    unsafe {
        (*raw).handle = Box::into_raw(Box::new(handle));
        (*raw).head.pMethods = &METHODS;
    }
}

/// # Safety
/// `raw` has been attached and not closed; SQLite calls one connection from one thread at a time.
unsafe fn handle<'a>(raw: *mut sqlite3_file) -> &'a mut Handle {
    unsafe { &mut *(*raw.cast::<Raw>()).handle }
}

unsafe extern "C" fn close(raw: *mut sqlite3_file) -> c_int {
    let mut handle = unsafe { Box::from_raw((*raw.cast::<Raw>()).handle) };
    if !handle.is_fenced() {
        leave_shm(&mut handle);
        lock(&handle.file).locks.unlock(handle.id, SQLITE_LOCK_NONE);
        if let (true, Some((disk, _))) = (handle.delete_on_close, &handle.owner) {
            disk.delete(&handle.name, false);
        }
    }
    SQLITE_OK
}

unsafe extern "C" fn read(
    raw: *mut sqlite3_file,
    buf: *mut c_void,
    n: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let handle = unsafe { handle(raw) };
    let buf = unsafe { std::slice::from_raw_parts_mut(buf.cast::<u8>(), n as usize) };
    if handle.is_fenced() {
        buf.fill(0);
        return SQLITE_IOERR_READ;
    }
    let got = lock(&handle.file).content.read(offset as u64, buf);
    if got == buf.len() { SQLITE_OK } else { SQLITE_IOERR_SHORT_READ }
}

unsafe extern "C" fn write(
    raw: *mut sqlite3_file,
    bytes: *const c_void,
    n: c_int,
    offset: sqlite3_int64,
) -> c_int {
    let handle = unsafe { handle(raw) };
    if handle.is_fenced() {
        return SQLITE_IOERR_WRITE;
    }
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), n as usize) };
    let offset = offset as u64;
    match &handle.owner {
        Some((disk, _)) => {
            if !disk.has_room(&handle.name, offset + bytes.len() as u64) {
                return SQLITE_FULL;
            }
            disk.inner.writes.fetch_add(1, Ordering::Relaxed);
            let name = &handle.name;
            disk.note(|| Operation::Write { name: name.clone(), offset, bytes: bytes.into() });
            lock(&handle.file).content.write(offset, bytes);
        }
        None => lock(&handle.file).content.write_unlogged(offset, bytes),
    }
    SQLITE_OK
}

unsafe extern "C" fn truncate(raw: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    let handle = unsafe { handle(raw) };
    if handle.is_fenced() {
        return SQLITE_IOERR_TRUNCATE;
    }
    let len = len as u64;
    if let Some((disk, _)) = &handle.owner {
        disk.note(|| Operation::Truncate { name: handle.name.clone(), len });
    }
    lock(&handle.file).content.truncate(len);
    SQLITE_OK
}

unsafe extern "C" fn sync(raw: *mut sqlite3_file, _: c_int) -> c_int {
    let handle = unsafe { handle(raw) };
    if handle.is_fenced() {
        return SQLITE_IOERR_FSYNC;
    }
    match &handle.owner {
        Some((disk, _)) => {
            disk.inner.syncs.fetch_add(1, Ordering::Relaxed);
            let (name, is_journal) = (&handle.name, handle.syncs_directory);
            disk.note(|| Operation::Sync { name: name.clone(), is_journal });
            disk.sync(&handle.file, is_journal);
        }
        None => lock(&handle.file).content.sync(),
    }
    SQLITE_OK
}

unsafe extern "C" fn file_size(raw: *mut sqlite3_file, size: *mut sqlite3_int64) -> c_int {
    let handle = unsafe { handle(raw) };
    if handle.is_fenced() {
        return SQLITE_IOERR_FSTAT;
    }
    unsafe { *size = lock(&handle.file).content.os.len() as sqlite3_int64 };
    SQLITE_OK
}

unsafe extern "C" fn take_lock(raw: *mut sqlite3_file, level: c_int) -> c_int {
    let handle = unsafe { handle(raw) };
    match &handle.owner {
        None => SQLITE_OK,
        Some((_, fence)) if !fence.is_up() => SQLITE_IOERR_LOCK,
        Some((_, fence)) => lock(&handle.file).locks.lock(handle.id, fence, level),
    }
}

unsafe extern "C" fn unlock(raw: *mut sqlite3_file, level: c_int) -> c_int {
    let handle = unsafe { handle(raw) };
    if !handle.is_fenced() {
        lock(&handle.file).locks.unlock(handle.id, level);
    }
    SQLITE_OK
}

unsafe extern "C" fn check_reserved(raw: *mut sqlite3_file, out: *mut c_int) -> c_int {
    let handle = unsafe { handle(raw) };
    if handle.is_fenced() {
        return SQLITE_IOERR_CHECKRESERVEDLOCK;
    }
    unsafe { *out = c_int::from(lock(&handle.file).locks.is_reserved()) };
    SQLITE_OK
}

unsafe extern "C" fn control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut sqlite3_file) -> c_int {
    4096
}

/// Without this promise `synchronous=FULL` pads every commit in the WAL to a sector.
unsafe extern "C" fn characteristics(_: *mut sqlite3_file) -> c_int {
    SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn shm_map(
    raw: *mut sqlite3_file,
    index: c_int,
    size: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let handle = unsafe { handle(raw) };
    unsafe { *out = std::ptr::null_mut() };
    let Some((_, fence)) = handle.owner.as_ref().filter(|(_, fence)| fence.is_up()) else {
        return SQLITE_IOERR_SHMMAP;
    };
    let regions = match &handle.regions {
        Some(regions) => regions.clone(),
        None => {
            let mut file = lock(&handle.file);
            let regions = file.shm.get_or_insert_default().join(handle.id, fence);
            handle.regions.insert(regions).clone()
        }
    };
    if let Some(start) = shm::region(&regions, index as usize, size as usize, extend != 0) {
        unsafe { *out = start.cast() };
    }
    SQLITE_OK
}

unsafe extern "C" fn shm_lock(
    raw: *mut sqlite3_file,
    first: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    let handle = unsafe { handle(raw) };
    if handle.is_fenced() {
        return SQLITE_IOERR_SHMLOCK;
    }
    match &mut lock(&handle.file).shm {
        Some(shm) => shm.lock(handle.id, first, n, flags),
        None => SQLITE_IOERR_SHMLOCK,
    }
}

unsafe extern "C" fn shm_barrier(_: *mut sqlite3_file) {
    std::sync::atomic::fence(Ordering::SeqCst);
}

unsafe extern "C" fn shm_unmap(raw: *mut sqlite3_file, _delete: c_int) -> c_int {
    let handle = unsafe { handle(raw) };
    if !handle.is_fenced() {
        leave_shm(handle);
    }
    SQLITE_OK
}

/// The memory itself goes with the last mapping; nothing of it is a file here.
fn leave_shm(handle: &mut Handle) {
    if handle.regions.take().is_some() {
        let mut file = lock(&handle.file);
        let unused = file.shm.as_mut().is_some_and(|shm| {
            shm.leave(handle.id);
            shm.is_unused()
        });
        if unused {
            file.shm = None;
        }
    }
}

pub(super) fn new(file: SharedFile, name: Arc<str>, owner: Option<(Disk, Fence)>) -> Handle {
    let id = {
        let mut file = lock(&file);
        file.handles += 1;
        file.handles
    };
    Handle { file, id, owner, name, syncs_directory: false, delete_on_close: false, regions: None }
}

pub(super) fn temporary() -> Handle {
    new(Arc::default(), "".into(), None)
}

pub(super) const RAW_SIZE: c_int = size_of::<Raw>() as c_int;

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(take_lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
