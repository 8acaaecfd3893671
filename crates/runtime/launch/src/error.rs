//! Errors between the daemon and a pod's processes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use orlop_keeper_protocol::{FailureKind, Malformed};

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a keeper or runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The keeper program could not be started.
    #[error("cannot start keeper {program:?}; check that it is installed next to the daemon")]
    Spawn {
        /// Path of the program.
        program: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The keeper's socket refused the connection: the keeper has exited, was never started, or is busy.
    #[error("cannot connect to the keeper in {dir:?}")]
    Connect {
        /// Directory of the pod.
        dir: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The connection to the keeper is lost: the keeper has crashed or was shut down.
    #[error("{doing}: the pod's keeper has exited")]
    Gone {
        /// The operation that failed.
        doing: String,
    },
    /// The keeper did not answer in time.
    #[error("{doing}: no answer from the pod's keeper within {after:?}")]
    NoAnswer {
        /// The operation that failed.
        doing: String,
        /// The timeout that elapsed.
        after: Duration,
    },
    /// The keeper violated the protocol.
    #[error("{doing}: cannot decode the keeper's response")]
    Protocol {
        /// The operation that failed.
        doing: String,
        /// Cause of the failure.
        #[source]
        source: Malformed,
    },
    /// The keeper refused the request or failed.
    #[error("{message}")]
    Keeper {
        /// Kind of the failure.
        kind: FailureKind,
        /// The operation and its error.
        message: String,
    },
    /// A runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A file or directory operation failed.
    #[error("{doing} {path:?}")]
    File {
        /// The operation that failed.
        doing: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Returns the kind of a keeper's or runtime's failure, if there is one.
    pub fn failure_kind(&self) -> Option<FailureKind> {
        match self {
            Self::Keeper { kind, .. } => Some(*kind),
            Self::Runtime(error) => Some(match error.fault {
                RuntimeFault::Missing => FailureKind::RuntimeMissing,
                RuntimeFault::Exhausted => FailureKind::Exhausted,
                RuntimeFault::Failed => FailureKind::RuntimeFailed,
                RuntimeFault::TimedOut => FailureKind::TimedOut,
            }),
            _ => None,
        }
    }

    /// Whether nothing listens on the keeper's socket: it has exited or was never started. False for a keeper that is
    /// busy or hangs.
    pub fn is_nobody(&self) -> bool {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(
            self,
            Self::Connect { source, .. } if matches!(source.kind(), NotFound | ConnectionRefused)
        )
    }

    /// Whether the keeper did not answer in time.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::NoAnswer { .. })
    }

    /// Whether the connection to the keeper is lost.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Connect { .. })
    }
}

/// Kinds of runtime failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeFault {
    /// The program could not be executed.
    Missing,
    /// The program could not be executed because a limit of processes, memory or open files was reached.
    Exhausted,
    /// The program exited with an error or printed invalid output.
    Failed,
    /// The program exceeded its time limit and was killed.
    TimedOut,
}

/// A failure of a runtime, with the runtime's own message.
#[derive(Clone, Debug, thiserror::Error)]
#[error("runtime {runtime:?} failed to {action}: {detail}")]
pub struct RuntimeError {
    /// Name of the runtime in the configuration.
    pub runtime: String,
    /// The command that failed: `create`, `start`, …
    pub action: String,
    /// Kind of the failure.
    pub fault: RuntimeFault,
    /// The last error in its log, else the end of its output, else its exit status.
    pub detail: String,
}
