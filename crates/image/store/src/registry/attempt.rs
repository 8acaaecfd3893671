//! Failures of one attempt at one host.

use std::time::Duration;

use crate::Error;

/// The failure of one attempt at one host.
pub(crate) enum Attempt {
    /// Permanent at this host.
    Final(Error),
    /// Temporary; the host may have requested a pause.
    Transient(Error, Option<Duration>),
    /// The host answers too slowly. The bytes received do not count as progress.
    Slow(Error),
    /// The host cannot be reached. A host that has answered before is worth waiting for.
    Unreachable(Error),
    /// Not the fault of the host; all attempts end.
    Abort(Error),
}

impl From<Error> for Attempt {
    fn from(error: Error) -> Self {
        Self::Abort(error)
    }
}
