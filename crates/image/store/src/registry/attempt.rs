//! How one attempt at one host can fail.

use std::time::Duration;

use crate::Error;

/// How one try at one host failed.
pub(crate) enum Attempt {
    /// For good, as far as this host goes.
    Final(Error),
    /// Perhaps not for long; the host may have said how long.
    Transient(Error, Option<Duration>),
    /// It answers, but too slowly: what came meanwhile is no reason to go on for ever.
    Slow(Error),
    /// Nobody is there. A host that has answered before is worth waiting for.
    Unreachable(Error),
    /// The fault isn't the host's.
    Abort(Error),
}

impl From<Error> for Attempt {
    fn from(error: Error) -> Self {
        Self::Abort(error)
    }
}
