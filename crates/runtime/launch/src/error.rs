//! What can go wrong between the daemon and a pod's processes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use orlop_keeper_protocol::{FailureKind, Malformed};

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The keeper's program could not be started.
    #[error("cannot start keeper {program:?}; check that it is installed next to the daemon")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A keeper's socket could not be connected to: the keeper is dead, never was, or is busy.
    #[error("cannot connect to the keeper in {dir:?}")]
    Connect {
        /// The pod's directory.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection to the keeper is lost: it has died, or it was shut down.
    #[error("{doing}: the pod's keeper has exited")]
    Gone {
        /// What was being done.
        doing: String,
    },
    /// No answer came in time.
    #[error("{doing}: no answer from the pod's keeper within {after:?}")]
    NoAnswer {
        /// What was being done.
        doing: String,
        /// How long was waited.
        after: Duration,
    },
    /// The keeper does not keep to the protocol.
    #[error("{doing}: cannot decode the keeper's response")]
    Protocol {
        /// What was being done.
        doing: String,
        /// Why.
        #[source]
        source: Malformed,
    },
    /// The keeper refused or failed.
    #[error("{message}")]
    Keeper {
        /// What sort of failure.
        kind: FailureKind,
        /// What was being done, and what went wrong.
        message: String,
    },
    /// A runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A file or directory could not be dealt with.
    #[error("{doing} {path:?}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// The keeper's or the runtime's sort of failure, where there is one.
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

    /// Whether nobody listens on the keeper's socket: it has ended, or never was. One that is only
    /// busy, or hangs, is somebody.
    pub fn is_nobody(&self) -> bool {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        matches!(
            self,
            Self::Connect { source, .. } if matches!(source.kind(), NotFound | ConnectionRefused)
        )
    }

    /// Whether the keeper was asked and has not answered in its time.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::NoAnswer { .. })
    }

    /// Whether the connection to the keeper is no longer there.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. } | Self::Connect { .. })
    }
}

/// In which way a runtime let us down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeFault {
    /// It could not be executed.
    Missing,
    /// It could not be executed for want of processes, memory or open files, and may be there and work.
    Exhausted,
    /// It ended with an error, or printed what makes no sense.
    Failed,
    /// It took too long and was killed.
    TimedOut,
}

/// A runtime's failure in its own words.
#[derive(Clone, Debug, thiserror::Error)]
#[error("runtime {runtime:?} failed to {action}: {detail}")]
pub struct RuntimeError {
    /// The runtime's name in the configuration.
    pub runtime: String,
    /// What it was asked to do: `create`, `start`, …
    pub action: String,
    /// In which way it failed.
    pub fault: RuntimeFault,
    /// The last error of its log, else the end of its output, else how it ended.
    pub detail: String,
}
