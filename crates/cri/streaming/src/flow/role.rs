//! The two sides of a connection and what they may use up.

use std::time::Duration;

/// Which side opened the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
}

/// What a peer may use up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Streams open at once.
    pub(crate) streams: usize,
    /// Bytes that wait for one stream.
    pub(crate) stream_bytes: usize,
    /// Bytes that wait for all streams.
    pub(crate) connection_bytes: usize,
    /// Time without any frame.
    pub(crate) idle: Duration,
}
