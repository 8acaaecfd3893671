//! Disk work, off the reactor.

use orlop_pool::Ended;

use crate::{Error, Result};

/// Runs disk work on a thread for such work: what pulls, sweeps, seals and collects. Who reads what is being fetched
/// waits in the kernel, whoever it is, so none of this needs the threads of who may read.
pub(crate) fn blocking<T, F>(work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    told(orlop_pool::storing(work))
}

/// The same for what a read of what is not here waits for, which no sweep of a slow disk may hold up.
pub(crate) fn answering<T, F>(work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    told(orlop_pool::answering(work))
}

async fn told<T>(done: impl Future<Output = std::result::Result<Result<T>, Ended>>) -> Result<T> {
    done.await.map_err(|ended| match ended {
        Ended::NoThread(source) => Error::io("starting a thread", source),
        Ended::Panicked(_) => Error::Cancelled("disk work".to_owned()),
    })?
}
