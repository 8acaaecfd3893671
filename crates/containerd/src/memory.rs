//! The allocator's habits: there is a process of this program for each pod.
#![allow(unsafe_code)]

/// Keeps threads from getting heaps of their own, and the heap from hoarding.
pub(crate) fn be_frugal() {
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

/// Gives unused memory back.
pub(crate) fn trim() {
    // SAFETY: malloc_trim has no preconditions.
    unsafe { libc::malloc_trim(0) };
}
