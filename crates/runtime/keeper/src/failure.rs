//! Creates failures for replies.

use std::io;

use orlop_keeper_protocol::{Failure, FailureKind};
use rustix::io::Errno;

/// Returns a failure with a message.
pub(crate) fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure {
        kind,
        message: message.into(),
        ..Failure::default()
    }
}

/// Returns the failure of a request that names an unknown container.
pub(crate) fn no_container(id: &str) -> Failure {
    failure(
        FailureKind::NotFound,
        format!("the keeper has no container {id}"),
    )
}

/// Returns the failure kind of an error. Running out of processes, memory or file descriptors is temporary, so the
/// request can be retried.
pub(crate) fn kind_of(error: &io::Error, otherwise: FailureKind) -> FailureKind {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => FailureKind::Exhausted,
        _ => otherwise,
    }
}
