//! Limits on memory and file descriptors. One process of this program runs per pod.
#![allow(unsafe_code)]

/// Configures the allocator to use one heap for all threads and to return memory early. Only glibc needs this.
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

/// Closes descriptors inherited from containerd's parent; runs at the start, before anything is opened.
pub(crate) fn close_inherited() {
    // SAFETY: this process itself has opened nothing but the standard streams.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Returns unused memory to the kernel.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim has no preconditions.
    unsafe {
        libc::malloc_trim(0)
    };
}
