//! Disk work, off the reactor.

use crate::{Error, Result};

/// Runs disk work on a thread for such work.
pub(crate) fn blocking<T, F>(work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let done = orlop_pool::blocking(work);
    async move {
        // It fails only if the work panics or the runtime ends.
        done.await
            .map_err(|_| Error::Cancelled("disk work".to_owned()))?
    }
}
