//! The VFS `durasim`, registered once in an OS process and made its default.
//!
//! It is the default so that SQLite seeds its random numbers from it, and so that code which opens a
//! plain path lands on the simulated disk. On a thread without a world everything goes to the VFS
//! that was the default before.
//!
//! SQLite's random numbers come from one generator per OS process. It is reset for every run, which
//! makes them a function of the seed when one run at a time is made. With several runs at once on
//! several threads, WAL salts and SQL's `random()` may differ from run to run; the salts change no
//! behaviour, and simulated programs should not use `random()`.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Once;

use rusqlite::ffi::*;

use super::place::Place;
use super::{handle, memory};
use crate::world::World;

pub(super) const NAME: &CStr = c"durasim";
const MAX_PATH: c_int = 512;
/// Milliseconds from the start of the Julian calendar to 1970.
const JULIAN_EPOCH: i64 = 210_866_760_000_000;

/// Registers the VFS. Before SQLite is first used, if memory statistics are to be off, which
/// otherwise make all threads wait for each other.
pub(crate) fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| unsafe {
        // Refused when SQLite is in use already: only speed is lost.
        sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
        let methods = memory::METHODS; // SQLite keeps a copy.
        sqlite3_config(SQLITE_CONFIG_MALLOC, &raw const methods);
        let before = sqlite3_vfs_find(std::ptr::null());
        assert!(!before.is_null(), "SQLite has no VFS of its own");
        let vfs = Box::new(sqlite3_vfs {
            iVersion: 2,
            szOsFile: handle::RAW_SIZE.max((*before).szOsFile),
            mxPathname: MAX_PATH.max((*before).mxPathname),
            zName: NAME.as_ptr(),
            pAppData: before.cast(),
            xOpen: Some(open),
            xDelete: Some(delete),
            xAccess: Some(access),
            xFullPathname: Some(full_pathname),
            xRandomness: Some(randomness),
            xSleep: Some(sleep),
            xCurrentTime: Some(current_time),
            xGetLastError: Some(last_error),
            xCurrentTimeInt64: Some(current_time_int64),
            ..std::mem::zeroed()
        });
        let code = sqlite3_vfs_register(Box::leak(vfs), 1);
        assert_eq!(code, SQLITE_OK, "SQLite refuses the VFS");
    });
}

/// Makes SQLite draw its next seed from the world of this thread.
pub(crate) fn begin_run() {
    install();
    unsafe { sqlite3_randomness(0, std::ptr::null_mut()) };
}

/// # Safety
/// `vfs` is ours.
unsafe fn before(vfs: *mut sqlite3_vfs) -> *mut sqlite3_vfs {
    unsafe { (*vfs).pAppData.cast() }
}

/// # Safety
/// `path` is null or ends with a zero byte.
unsafe fn text<'a>(path: *const c_char) -> Option<&'a str> {
    if path.is_null() {
        return None;
    }
    unsafe { CStr::from_ptr(path) }.to_str().ok()
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    path: sqlite3_filename,
    raw: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let Some(world) = World::try_current() else {
        let before = unsafe { before(vfs) };
        return match unsafe { (*before).xOpen } {
            Some(open) => unsafe { open(before, path, raw, flags, out_flags) },
            None => SQLITE_CANTOPEN,
        };
    };
    unsafe { (*raw).pMethods = std::ptr::null() };
    let opened = match unsafe { text(path) } {
        None => handle::temporary(),
        Some(path) => {
            let Some(Place { disk, fence, name }) = Place::find(&world, path) else {
                return SQLITE_CANTOPEN;
            };
            let file = match disk.find(&name) {
                Some(_) if flags & SQLITE_OPEN_EXCLUSIVE != 0 => return SQLITE_CANTOPEN,
                Some(file) => file,
                None if flags & SQLITE_OPEN_CREATE == 0 => return SQLITE_CANTOPEN,
                None => disk.create(&name),
            };
            let mut handle = handle::new(file, name.into(), Some((disk, fence)));
            let journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
            handle.syncs_directory = flags & journals != 0;
            handle.delete_on_close = flags & SQLITE_OPEN_DELETEONCLOSE != 0;
            handle
        }
    };
    unsafe {
        handle::attach(raw, opened);
        if !out_flags.is_null() {
            *out_flags = flags;
        }
    }
    SQLITE_OK
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, path: *const c_char, sync: c_int) -> c_int {
    let Some(world) = World::try_current() else {
        let before = unsafe { before(vfs) };
        return match unsafe { (*before).xDelete } {
            Some(delete) => unsafe { delete(before, path, sync) },
            None => SQLITE_IOERR_DELETE,
        };
    };
    let place = unsafe { text(path) }.and_then(|path| Place::find(&world, path));
    match place {
        None => SQLITE_IOERR_DELETE,
        Some(place) if place.disk.delete(&place.name, sync != 0) => SQLITE_OK,
        Some(_) => SQLITE_IOERR_DELETE_NOENT,
    }
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    path: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(world) = World::try_current() else {
        let before = unsafe { before(vfs) };
        return match unsafe { (*before).xAccess } {
            Some(access) => unsafe { access(before, path, flags, out) },
            None => SQLITE_IOERR_ACCESS,
        };
    };
    let Some(place) = unsafe { text(path) }.and_then(|path| Place::find(&world, path)) else {
        return SQLITE_IOERR_ACCESS;
    };
    // An empty file counts as absent, as with SQLite's own VFS for Unix.
    let size = place.disk.find(&place.name).map(|file| crate::lock::lock(&file).content.os.len());
    let there = match flags {
        SQLITE_ACCESS_EXISTS => size.is_some_and(|size| size > 0),
        _ => size.is_some(),
    };
    unsafe { *out = c_int::from(there) };
    SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    vfs: *mut sqlite3_vfs,
    path: *const c_char,
    n: c_int,
    out: *mut c_char,
) -> c_int {
    if World::try_current().is_none() {
        let before = unsafe { before(vfs) };
        return match unsafe { (*before).xFullPathname } {
            Some(full) => unsafe { full(before, path, n, out) },
            None => SQLITE_CANTOPEN,
        };
    }
    let Some(full) = unsafe { text(path) }.and_then(Place::full) else {
        return SQLITE_CANTOPEN;
    };
    if full.len() >= n as usize {
        return SQLITE_CANTOPEN;
    }
    unsafe {
        std::ptr::copy_nonoverlapping(full.as_ptr(), out.cast(), full.len());
        *out.add(full.len()) = 0;
    }
    SQLITE_OK
}

unsafe extern "C" fn randomness(vfs: *mut sqlite3_vfs, n: c_int, out: *mut c_char) -> c_int {
    match World::try_current() {
        Some(world) => {
            let bytes = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), n as usize) };
            world.chance().off_the_tape("sqlite.seed").fill(bytes);
            n
        }
        None => {
            let before = unsafe { before(vfs) };
            unsafe { (*before).xRandomness }.map_or(0, |random| unsafe { random(before, n, out) })
        }
    }
}

/// Waiting inside SQLite cannot move virtual time, so it does not wait.
unsafe extern "C" fn sleep(vfs: *mut sqlite3_vfs, micros: c_int) -> c_int {
    if World::try_current().is_some() {
        return micros;
    }
    let before = unsafe { before(vfs) };
    unsafe { (*before).xSleep }.map_or(0, |sleep| unsafe { sleep(before, micros) })
}

unsafe extern "C" fn current_time_int64(vfs: *mut sqlite3_vfs, out: *mut sqlite3_int64) -> c_int {
    if let Some(world) = World::try_current() {
        unsafe { *out = JULIAN_EPOCH + world.unix_time().as_millis() as i64 };
        return SQLITE_OK;
    }
    let before = unsafe { before(vfs) };
    unsafe { (*before).xCurrentTimeInt64 }.map_or(SQLITE_ERROR, |now| unsafe { now(before, out) })
}

unsafe extern "C" fn current_time(vfs: *mut sqlite3_vfs, out: *mut f64) -> c_int {
    let mut millis = 0;
    let code = unsafe { current_time_int64(vfs, &mut millis) };
    unsafe { *out = millis as f64 / 86_400_000.0 };
    code
}

unsafe extern "C" fn last_error(_: *mut sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}
