//! Lets glibc keep the memory of finished runs.
//!
//! A run takes a few hundred kilobytes and gives them all back within a millisecond. By default glibc
//! returns them to the kernel each time, and page faults then cost more than the run itself (a small
//! database: 250 us against 105).

#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn keep() {
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
pub(super) fn keep() {}
