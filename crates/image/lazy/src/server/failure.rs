//! Why a request of the daemon's was not carried out.

use orlop_keeper_protocol::{Failure, FailureKind};

pub(crate) fn failure(kind: FailureKind, message: String) -> Failure {
    Failure {
        kind,
        message,
        ..Failure::default()
    }
}
