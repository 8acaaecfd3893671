//! Runs disk work on threads outside the async runtime.

use orlop_pool::Ended;

use crate::{Error, Result};

/// Runs disk work of pulls, sweeps, seals and garbage collection on its own set of threads. None of this work answers
/// readers of missing data, which wait in the kernel.
pub(crate) fn blocking<T, F>(work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    told(orlop_pool::storing(work))
}

/// Runs disk work that a read of missing data waits for. Its threads are separate, so that sweeps of a slow disk
/// cannot delay it.
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
