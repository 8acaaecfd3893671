//! Disk work, off the reactor.

use orlop_pool::Ended;

use crate::{Error, Result};

/// Runs disk work on a thread for such work.
pub(crate) fn blocking<T, F>(work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let done = orlop_pool::blocking(work);
    async move {
        done.await.map_err(|ended| match ended {
            Ended::NoThread(source) => Error::io("starting a thread", source),
            Ended::Panicked(_) => Error::Cancelled("disk work".to_owned()),
        })?
    }
}
