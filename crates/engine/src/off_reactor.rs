//! Work that would hold up the reactor.

use crate::error::{Error, Result};

/// Runs work that waits for the disk or the kernel on a thread made for that.
pub async fn blocking<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|failure| {
            Err(Error::Internal(format!("the operation ended abnormally: {failure}")).into())
        })
}
