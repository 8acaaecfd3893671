//! Errors of calls.

use std::io;

/// An error of a call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed.
    #[error("calling {method}: {source}")]
    Io {
        /// The called method.
        method: String,
        /// The reason.
        source: io::Error,
    },
    /// The response cannot be decoded.
    #[error("cannot parse the response to {0}")]
    Garbled(String),
    /// The server returned an error.
    #[error("{method} was refused: {message} (code {code})")]
    Refused {
        /// The called method.
        method: String,
        /// A gRPC status code.
        code: i32,
        /// The error message.
        message: String,
    },
}

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;
