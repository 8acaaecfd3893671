//! Numbers of the protocol.

/// The protocol's first number, the same for ever.
pub(crate) const MAJOR: u32 = 7;
/// The oldest version that is spoken, Linux 5.4's.
pub(crate) const MINOR_LEAST: u32 = 31;
/// The newest version whose layouts are known here, Linux 6.9's.
pub(crate) const MINOR_MOST: u32 = 40;

/// What a buffer for requests must have at least.
pub(crate) const REQUEST_SIZE: usize = 8192;
/// The largest write that the kernel may send; there are none, and it allows no less than this.
pub(crate) const WRITE_MOST: u32 = 4096;
/// The most pages of a read. More make it no faster: these and their copies stay in the processor's cache.
pub(crate) const PAGES_MOST: u16 = 64;
/// The bytes in them.
pub(crate) const MOST_AT_ONCE: usize = 64 * 4096;

/// The node of the directory.
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
    /// A name is no more.
    pub(crate) const INVAL_ENTRY: i32 = 3;
    /// What was read and not answered is to be sent again.
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
    /// What is cached of a file stays when it is opened again.
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    /// Nothing is to be flushed when it is closed.
    pub(crate) const NOFLUSH: u32 = 1 << 5;
}
