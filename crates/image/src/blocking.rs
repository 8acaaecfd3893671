//! Disk work, off the reactor.

use crate::{Error, Result};

/// Runs disk work on a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    // It fails only if the work panics or the runtime ends.
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Error::Cancelled("disk work".to_owned()))?
}
