//! Disk work, off the reactor.

use orlop_pool::Ended;

use crate::{Error, Result};

/// Runs disk work on a thread for such work. Reads of what is being fetched wait in the kernel for some of it,
/// whoever reads, so it does not need the threads of who may.
pub(crate) fn blocking<T, F>(work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let done = orlop_pool::answering(work);
    async move {
        done.await.map_err(|ended| match ended {
            Ended::NoThread(source) => Error::io("starting a thread", source),
            Ended::Panicked(_) => Error::Cancelled("disk work".to_owned()),
        })?
    }
}
