//! Which file attributes a copy preserves, and how much was copied.

/// What to keep of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Names, contents, times and permissions.
    Plain,
    /// Owners and set-id bits as well.
    Owners,
}

/// How much was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// What could not be, each said with its reason.
    pub(super) left_out: u64,
}
