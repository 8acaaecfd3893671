//! Options and result of a copy.

/// File attributes to preserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Names, contents, times and permissions.
    Plain,
    /// Also owners and set-ID bits.
    Owners,
}

/// Number of copied files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Files that failed; a message with the reason was printed for each.
    pub(super) left_out: u64,
}
