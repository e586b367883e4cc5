//! The memory of runs, handed on from one to the next.
//!
//! A run lives on a thread of its own, makes some ten thousand small allocations within a
//! millisecond, and gives nearly all of them back. General allocators treat a fresh thread as the
//! start of something long: their caches begin empty each time, so most calls take the slow path,
//! which made a fifth of the cost of a run. [`Heap`] keeps lists of free blocks by size that a run
//! borrows and leaves to the next one, warm.
//!
//! A simulation binary asks for it; without that, everything stays with the system:
//!
//! ```
//! #[global_allocator]
//! static HEAP: durasim_sim::Heap = durasim_sim::Heap;
//! ```
//!
//! Blocks come from one range of addresses, so that any thread can tell them from the system's. A
//! block belongs to no thread: whoever frees one in a run puts it on the lists of that run. Frees
//! outside a run (what a run returns, the thread's own destructors) go to one common list, which the
//! next run sorts in. Blocks are never returned to the system, so a process holds what its widest
//! moment needed. Large blocks are the system's, which is told to keep them, too.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};

use crate::lock::lock;

/// An allocator for simulation binaries, for `#[global_allocator]`.
pub struct Heap;

/// Blocks up to this size come from lists.
const LARGEST: usize = 32 << 10;
/// Every block has this alignment.
const ALIGN: usize = 16;
/// Up to here sizes are the multiples of [`ALIGN`], then four to each doubling.
const FINE: usize = 1 << FINE_LOG;
const FINE_LOG: usize = 10;
const CLASSES: usize = FINE / ALIGN + 4 * (LARGEST.ilog2() as usize - FINE_LOG);
/// What lists take from the range at a time.
const CHUNK: usize = 256 << 10;
/// Addresses that are set aside; memory is taken as it is touched.
const RANGE: usize = 16 << 30;

/// Start of the range. At first an address that no block is near of.
static RANGE_START: AtomicUsize = AtomicUsize::new(1 << 63);
/// How much of the range has been taken.
static TAKEN: AtomicUsize = AtomicUsize::new(RANGE);
/// Blocks that were freed outside every run.
static STRAYS: AtomicPtr<Free> = AtomicPtr::new(null_mut());
/// Lists that no run uses at the moment.
#[allow(clippy::vec_box)] // They are lent as they are: a copy would be of a kilobyte.
static IDLE: Mutex<Vec<Box<Lists>>> = Mutex::new(Vec::new());

thread_local! {
    /// The lists of the run on this thread. Without a destructor, so it can always be asked.
    static LISTS: Cell<*mut Lists> = const { Cell::new(null_mut()) };
}

/// A free block.
struct Free {
    next: *mut Free,
    /// Its size's index; only looked at among strays.
    class: usize,
}

struct Lists {
    free: [*mut Free; CLASSES],
    /// What is left of the newest chunk.
    chunk: *mut u8,
    chunk_left: usize,
}

// Moved between threads, used by one at a time.
unsafe impl Send for Lists {}

/// While it lives, small allocations of this thread come from lists.
pub(super) struct Borrowed(());

/// Lends lists to the run on this thread.
pub(super) fn borrow() -> Borrowed {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        keep_large();
        if let Some(start) = reserve() {
            RANGE_START.store(start, Ordering::Relaxed);
            TAKEN.store(0, Ordering::Relaxed);
        }
    });
    let idle = lock(&IDLE).pop();
    let mut lists = idle.unwrap_or_else(|| {
        Box::new(Lists { free: [null_mut(); CLASSES], chunk: null_mut(), chunk_left: 0 })
    });
    let mut stray = STRAYS.swap(null_mut(), Ordering::Acquire);
    while !stray.is_null() {
        // Whoever swapped the list out owns it whole.
        unsafe {
            let next = (*stray).next;
            lists.give((*stray).class, stray);
            stray = next;
        }
    }
    LISTS.set(Box::into_raw(lists));
    Borrowed(())
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let lists = LISTS.replace(null_mut());
        // Made from a box when they were lent.
        lock(&IDLE).push(unsafe { Box::from_raw(lists) });
    }
}

impl Lists {
    /// # Safety
    /// `block` is a block of this class that nobody uses.
    unsafe fn give(&mut self, class: usize, block: *mut Free) {
        unsafe { (*block).next = self.free[class] };
        self.free[class] = block;
    }

    /// A block of this class, or null when the range is used up.
    fn take(&mut self, class: usize) -> *mut u8 {
        let block = self.free[class];
        if block.is_null() {
            return self.cut(class);
        }
        self.free[class] = unsafe { (*block).next };
        block.cast()
    }

    #[cold]
    fn cut(&mut self, class: usize) -> *mut u8 {
        let size = size_of_class(class);
        if self.chunk_left < size {
            let taken = TAKEN.fetch_add(CHUNK, Ordering::Relaxed);
            if taken > RANGE - CHUNK {
                TAKEN.store(RANGE, Ordering::Relaxed);
                return null_mut();
            }
            let start = RANGE_START.load(Ordering::Relaxed) + taken;
            (self.chunk, self.chunk_left) = (ptr::with_exposed_provenance_mut(start), CHUNK);
        }
        let block = self.chunk;
        self.chunk = unsafe { block.add(size) };
        self.chunk_left -= size;
        block
    }
}

/// The class of blocks for this layout; none if it is the system's.
fn class_of(layout: &Layout) -> Option<usize> {
    let size = layout.size();
    if size > LARGEST || layout.align() > ALIGN || size == 0 {
        return None;
    }
    let last = size - 1;
    if last < FINE {
        return Some(last / ALIGN);
    }
    let log = last.ilog2() as usize;
    Some(FINE / ALIGN + (log - FINE_LOG) * 4 + (last >> (log - 2) & 3))
}

fn size_of_class(class: usize) -> usize {
    match class.checked_sub(FINE / ALIGN) {
        None => (class + 1) * ALIGN,
        Some(coarse) => (coarse % 4 + 5) << (coarse / 4 + FINE_LOG - 2),
    }
}

fn is_ours(block: *mut u8) -> bool {
    block.addr().wrapping_sub(RANGE_START.load(Ordering::Relaxed)) < RANGE
}

unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let lists = LISTS.get();
        if !lists.is_null()
            && let Some(class) = class_of(&layout)
        {
            // Lent to this thread alone.
            let block = unsafe { (*lists).take(class) };
            if !block.is_null() {
                return block;
            }
        }
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !is_ours(block) {
            return unsafe { System.dealloc(block, layout) };
        }
        let Some(class) = class_of(&layout) else { return };
        let lists = LISTS.get();
        let block: *mut Free = block.cast();
        if !lists.is_null() {
            return unsafe { (*lists).give(class, block) };
        }
        let mut next = STRAYS.load(Ordering::Relaxed);
        loop {
            unsafe { block.write(Free { next, class }) };
            let swap =
                STRAYS.compare_exchange_weak(next, block, Ordering::Release, Ordering::Relaxed);
            match swap {
                Ok(_) => return,
                Err(now) => next = now,
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if class_of(&layout).is_none() {
            // Large and fresh memory is zero already.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_ours(block) {
            return unsafe { System.realloc(block, layout, size) };
        }
        // The caller keeps `size` within what a layout can say.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if class_of(&wanted) == class_of(&layout) {
            return block;
        }
        unsafe {
            let grown = self.alloc(wanted);
            if !grown.is_null() {
                ptr::copy_nonoverlapping(block, grown, layout.size().min(size));
                self.dealloc(block, layout);
            }
            grown
        }
    }
}

#[cfg(target_os = "linux")]
fn reserve() -> Option<usize> {
    use std::ffi::{c_int, c_void};
    // From mman.h.
    const PROT_READ_WRITE: c_int = 1 | 2;
    const MAP_PRIVATE_ANONYMOUS_NORESERVE: c_int = 2 | 0x20 | 0x4000;
    unsafe extern "C" {
        fn mmap(
            at: *mut c_void,
            len: usize,
            prot: c_int,
            flags: c_int,
            fd: c_int,
            offset: i64,
        ) -> *mut c_void;
    }
    let flags = MAP_PRIVATE_ANONYMOUS_NORESERVE;
    let start = unsafe { mmap(null_mut(), RANGE, PROT_READ_WRITE, flags, -1, 0) };
    // Refused where address space is rationed: the system allocates everything then.
    (start.addr() != usize::MAX).then(|| start.expose_provenance())
}

#[cfg(not(target_os = "linux"))]
fn reserve() -> Option<usize> {
    None
}

/// Lets glibc keep large blocks. By default it returns them to the kernel each time, and the page
/// faults then cost more than the run itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_large() {
    use std::ffi::c_int;
    // From glibc's malloc.h.
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    // Refused settings cost speed only.
    unsafe {
        mallopt(M_TRIM_THRESHOLD, 256 << 20);
        mallopt(M_MMAP_THRESHOLD, 32 << 20);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep_large() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_fits_its_class_and_no_smaller_one() {
        for size in 1..=LARGEST {
            let class = class_of(&Layout::from_size_align(size, 8).unwrap()).unwrap();
            assert!(class < CLASSES && size_of_class(class) >= size, "{size}");
            assert!(class == 0 || size_of_class(class - 1) < size, "{size}");
        }
        assert_eq!(size_of_class(CLASSES - 1), LARGEST);
        assert_eq!(class_of(&Layout::from_size_align(LARGEST + 1, 8).unwrap()), None);
        assert_eq!(class_of(&Layout::from_size_align(64, 32).unwrap()), None);
    }

    #[test]
    fn blocks_are_told_apart_and_come_back() {
        let layout = Layout::from_size_align(100, 8).unwrap();
        let bigger = Layout::from_size_align(5000, 8).unwrap();
        let before = unsafe { Heap.alloc(layout) };
        let stray = std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                let _lists = borrow();
                unsafe {
                    let first = Heap.alloc(layout);
                    first.write_bytes(7, 100);
                    assert!(is_ours(first) && first.addr().is_multiple_of(ALIGN));
                    assert_eq!(Heap.realloc(first, layout, 110), first);
                    let moved = Heap.realloc(first, layout, 5000);
                    assert!(std::slice::from_raw_parts(moved, 100).iter().all(|&byte| byte == 7));
                    assert_eq!(Heap.alloc(layout), first, "freed by the move");
                    Heap.dealloc(moved, bigger);
                    let zeroed = Heap.alloc_zeroed(bigger);
                    assert_eq!(zeroed, moved);
                    assert!(std::slice::from_raw_parts(zeroed, 5000).iter().all(|&byte| byte == 0));
                    first.expose_provenance()
                }
            });
            run.join().unwrap()
        });
        assert!(!is_ours(before));
        unsafe {
            Heap.dealloc(before, layout);
            // Outside a run: the next one finds it.
            Heap.dealloc(ptr::with_exposed_provenance_mut(stray), layout);
        }
    }
}
