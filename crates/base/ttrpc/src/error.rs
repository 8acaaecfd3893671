//! Why a call came to nothing.

use std::io;

/// An error of a call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed.
    #[error("calling {method}: {source}")]
    Io {
        /// What was called.
        method: String,
        /// Why.
        source: io::Error,
    },
    /// The answer is no message.
    #[error("cannot parse the response to {0}")]
    Garbled(String),
    /// Whoever was called did not do it.
    #[error("{method} was refused: {message} (code {code})")]
    Refused {
        /// What was called.
        method: String,
        /// One of gRPC's.
        code: i32,
        /// Why.
        message: String,
    },
}

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;
