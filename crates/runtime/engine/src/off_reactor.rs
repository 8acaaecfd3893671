//! Work that would block the reactor.

use orlop_pool::{Ended, Place, Refused};

use crate::error::{Error, Result};

/// Runs work that waits only for the node's own disk or kernel, on a dedicated thread.
pub fn blocking<T, F>(work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let done = orlop_pool::blocking(work);
    async move {
        done.await.unwrap_or_else(|ended| match ended {
            Ended::NoThread(source) => Err(Error::io("starting a thread")(source).into()),
            panicked @ Ended::Panicked(_) => Err(Error::Internal(panicked.to_string()).into()),
        })
    }
}

/// Runs work that may wait for an unresponsive file system or process, within `owner`'s share of a limited
/// pool.
pub async fn waiting<T, F>(place: &'static Place, owner: &str, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    match place.run_for(owner, work).await {
        Ok(done) => done,
        Err(full @ Refused::Full { .. }) => Err(Error::Exhausted(full.to_string()).into()),
        Err(Refused::NoThread { place, source }) => {
            let doing = format!("cannot start a thread for {place}");
            Err(Error::Io { doing, source }.into())
        }
        Err(failure @ Refused::Panicked { .. }) => Err(Error::Internal(failure.to_string()).into()),
    }
}
