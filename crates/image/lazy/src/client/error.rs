//! What may go wrong between daemon and server.

use std::io;
use std::path::PathBuf;

use orlop_keeper_protocol::{FailureKind, Malformed};

/// What the functions of the daemon's side return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the server does not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be started.
    #[error("starting {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file or directory of the server's is in the way.
    #[error("{doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why that failed.
        source: io::Error,
    },
    /// The server did not do it.
    #[error("{message}")]
    Refused {
        /// What sort of failure.
        kind: FailureKind,
        /// In the server's words.
        message: String,
    },
    /// The server is gone.
    #[error("the lazy layer server has exited")]
    Gone,
    /// The server took too long, or the socket failed.
    #[error("communicating with the lazy layer server")]
    Socket(#[source] io::Error),
    /// The server's words make no sense.
    #[error("reading a message from the lazy layer server")]
    Malformed(#[from] Malformed),
}
