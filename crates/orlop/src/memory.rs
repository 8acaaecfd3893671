//! Keeps the daemon's memory small.
#![allow(unsafe_code)]

/// The C library gives each thread an arena of its own and returns freed memory
/// late; with a handful of threads that costs more than the lock saves.
pub(crate) fn tune_allocator() {
    #[cfg(target_env = "gnu")]
    {
        const ARENAS: libc::c_int = 2;
        const TRIM_ABOVE: libc::c_int = 256 << 10;
        const MAP_ABOVE: libc::c_int = 256 << 10;
        // SAFETY: mallopt only sets parameters of the allocator; an unknown one
        // is refused by its return value, which changes nothing here.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, ARENAS);
            libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_ABOVE);
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAP_ABOVE);
        }
    }
}
