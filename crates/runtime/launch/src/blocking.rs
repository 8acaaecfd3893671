//! Work off the reactor.

use std::io;

use orlop_pool::Ended;

/// Runs work that waits for the disk or the kernel on a thread for that.
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
