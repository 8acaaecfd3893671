//! Failures of the daemon's requests.

use orlop_keeper_protocol::{Failure, FailureKind};

pub(crate) fn failure(kind: FailureKind, message: String) -> Failure {
    Failure {
        kind,
        message,
        ..Failure::default()
    }
}
