//! The allocator's habits. Only glibc's has any that can be changed; musl's keeps next to nothing.
#![allow(unsafe_code)]

/// Gives unused memory back.
pub(crate) fn trim() {
    // SAFETY: malloc_trim has no preconditions.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Keeps the log thread from getting a heap of its own, and the heap from hoarding.
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
