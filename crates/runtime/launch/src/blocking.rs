//! Blocking work outside the reactor.

use std::io;

use orlop_pool::Ended;

/// Runs blocking disk or kernel work on a thread of the blocking pool.
pub(crate) async fn blocking<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    let done = orlop_pool::blocking(work).await;
    done.unwrap_or_else(|ended| match ended {
        Ended::NoThread(error) => Err(error),
        panicked @ Ended::Panicked(_) => Err(io::Error::other(panicked)),
    })
}
