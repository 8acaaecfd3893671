//! Errors between the daemon and the server.

use std::io;
use std::path::PathBuf;

use orlop_keeper_protocol::{FailureKind, Malformed};

/// The result type of the daemon's side.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a request to the server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's program could not be started.
    #[error("starting {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file or directory of the server could not be used.
    #[error("{doing} {}", path.display())]
    File {
        /// The attempted action.
        doing: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The server refused the request.
    #[error("{message}")]
    Refused {
        /// The kind of failure.
        kind: FailureKind,
        /// The server's message.
        message: String,
    },
    /// The server exited.
    #[error("the lazy layer server has exited")]
    Gone,
    /// The request timed out, or the socket failed.
    #[error("communicating with the lazy layer server")]
    Socket(#[source] io::Error),
    /// A message of the server cannot be parsed.
    #[error("reading a message from the lazy layer server")]
    Malformed(#[from] Malformed),
}
