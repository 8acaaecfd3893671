//! What a process of this program keeps, of which there is one for each pod: memory, and descriptors.
#![allow(unsafe_code)]

/// Keeps threads from getting heaps of their own, and the heap from hoarding. Other libraries than
/// glibc do neither.
pub(crate) fn be_frugal() {
    #[cfg(target_env = "gnu")]
    for (option, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_TRIM_THRESHOLD, 32 * 1024),
        (libc::M_TOP_PAD, 4 * 1024),
        (libc::M_MMAP_THRESHOLD, 64 * 1024),
    ] {
        // SAFETY: mallopt takes two numbers and has no other preconditions.
        unsafe { libc::mallopt(option, value) };
    }
}

/// Closes what whoever started containerd has left open; at the start, before anything is opened.
pub(crate) fn close_inherited() {
    // SAFETY: nothing of this process's own is open beyond the standard streams.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Gives unused memory back.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0)
    };
}
