//! SQLite's memory, from the simulator's allocator.
//!
//! SQLite would ask the C library, whose caches begin empty on the fresh thread of each run. Here it
//! shares what [`crate::Heap`] hands on from run to run, if the binary has asked for that. Each block
//! has its size in front, as SQLite asks for it.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ffi::{c_int, c_void};

use rusqlite::ffi::{SQLITE_OK, sqlite3_mem_methods};

const HEAD: usize = size_of::<usize>();

pub(super) const METHODS: sqlite3_mem_methods = sqlite3_mem_methods {
    xMalloc: Some(take),
    xFree: Some(give),
    xRealloc: Some(change),
    xSize: Some(size),
    xRoundup: Some(round_up),
    xInit: Some(init),
    xShutdown: Some(shut_down),
    pAppData: std::ptr::null_mut(),
};

/// The layout of a block of `n` bytes with its head. SQLite never asks for more than 2 GiB.
fn layout(n: usize) -> Layout {
    unsafe { Layout::from_size_align_unchecked(n + HEAD, HEAD) }
}

/// # Safety
/// `block` is one of ours.
unsafe fn head(block: *mut c_void) -> *mut usize {
    unsafe { block.cast::<usize>().sub(1) }
}

/// # Safety
/// `start` is null or has room for a head.
unsafe fn behind_head(start: *mut u8, n: usize) -> *mut c_void {
    if start.is_null() {
        return std::ptr::null_mut();
    }
    unsafe {
        start.cast::<usize>().write(n);
        start.add(HEAD).cast()
    }
}

unsafe extern "C" fn take(n: c_int) -> *mut c_void {
    let n = n as usize;
    unsafe { behind_head(alloc(layout(n)), n) }
}

unsafe extern "C" fn give(block: *mut c_void) {
    unsafe { dealloc(head(block).cast(), layout(*head(block))) }
}

unsafe extern "C" fn change(block: *mut c_void, n: c_int) -> *mut c_void {
    let n = n as usize;
    unsafe { behind_head(realloc(head(block).cast(), layout(*head(block)), n + HEAD), n) }
}

unsafe extern "C" fn size(block: *mut c_void) -> c_int {
    if block.is_null() { 0 } else { unsafe { *head(block) as c_int } }
}

unsafe extern "C" fn round_up(n: c_int) -> c_int {
    (n + 7) & !7
}

unsafe extern "C" fn init(_: *mut c_void) -> c_int {
    SQLITE_OK
}

unsafe extern "C" fn shut_down(_: *mut c_void) {}
