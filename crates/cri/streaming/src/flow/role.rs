//! The two sides of a connection and their resource limits.

use std::time::Duration;

/// The side of a connection: the one that opened it, or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// Resource limits of a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of open streams.
    pub(crate) streams: usize,
    /// Maximum number of queued bytes per stream.
    pub(crate) stream_bytes: usize,
    /// Maximum number of queued bytes of all streams.
    pub(crate) connection_bytes: usize,
    /// Maximum time without any frame.
    pub(crate) idle: Duration,
}
