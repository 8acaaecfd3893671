//! Creates failures for replies.

use std::io;

use orlop_keeper_protocol::{Failure, FailureKind};
use rustix::io::Errno;

/// A failure in words.
pub(crate) fn failure(kind: FailureKind, message: impl Into<String>) -> Failure {
    Failure {
        kind,
        message: message.into(),
        ..Failure::default()
    }
}

/// The failure of whatever wants a container that is not there.
pub(crate) fn no_container(id: &str) -> Failure {
    failure(
        FailureKind::NotFound,
        format!("the keeper has no container {id}"),
    )
}

/// What an error is told as: what failed for want of processes, memory or files may be had another time.
pub(crate) fn kind_of(error: &io::Error, otherwise: FailureKind) -> FailureKind {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => FailureKind::Exhausted,
        _ => otherwise,
    }
}
