//! Constants of the protocol.

/// The major version of the protocol, which never changes.
pub(crate) const MAJOR: u32 = 7;
/// The oldest supported minor version, that of Linux 5.4.
pub(crate) const MINOR_LEAST: u32 = 31;
/// The newest supported minor version, that of Linux 6.9.
pub(crate) const MINOR_MOST: u32 = 40;

/// Minimum size of a buffer for requests.
pub(crate) const REQUEST_SIZE: usize = 8192;
/// Maximum write size. There are no writes, but the kernel allows no smaller value.
pub(crate) const WRITE_MOST: u32 = 4096;
/// Maximum number of pages in a read. A larger value is not faster: these pages and their copies stay in the
/// processor's cache.
pub(crate) const PAGES_MOST: u16 = 64;
/// The same maximum in bytes.
pub(crate) const MOST_AT_ONCE: usize = 64 * 4096;

/// The node number of the directory.
pub(crate) const ROOT: u64 = 1;

pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const BATCH_FORGET: u32 = 42;
}

pub(crate) mod notice {
    /// Invalidates a name.
    pub(crate) const INVAL_ENTRY: i32 = 3;
    /// Requests that unanswered requests are sent again.
    pub(crate) const RESEND: i32 = 7;
}

pub(crate) mod capability {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const HAS_RESEND: u64 = 1 << 39;
}

pub(crate) mod open_flag {
    /// Keeps the cached data of a file when it is opened again.
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    /// Skips the flush request when a file is closed.
    pub(crate) const NOFLUSH: u32 = 1 << 5;
}
