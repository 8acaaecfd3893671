//! The kinds of failures that callers distinguish.

/// The kind of a failure; decides the gRPC code of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No usable network is configured yet; wait for the configuration.
    NotReady,
    /// The request is invalid.
    Invalid,
    /// The requested resource is in use.
    Conflict,
    /// No address is left.
    Exhausted,
    /// A plugin exceeded its timeout.
    Timeout,
    /// The plugin asks to try again later.
    TryAgain,
    /// A plugin reported another failure.
    Plugin,
    /// A system call or file operation failed.
    Internal,
}
