//! Settings of the allocator. Only glibc's has any; musl's keeps very little memory.
#![allow(unsafe_code)]

/// Returns unused memory to the kernel.
pub(crate) fn trim() {
    // SAFETY: malloc_trim has no preconditions.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Prevents a separate heap for the log thread, and limits unused memory in the heap.
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
