//! The kinds of failures that callers distinguish.

/// What kind of failure it is; decides the answer's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No usable network yet; wait for the configuration.
    NotReady,
    /// The request cannot be honoured as it is.
    Invalid,
    /// Something else holds what is asked for.
    Conflict,
    /// No address is left.
    Exhausted,
    /// A plugin took too long.
    Timeout,
    /// The plugin says: later.
    TryAgain,
    /// A plugin failed in its own way.
    Plugin,
    /// The system failed.
    Internal,
}
