//! The services, each call handed to the file of its name in `rpc/`, `rpc_images/` ….

use std::sync::Arc;

use orlop_service::frame::{self, Backend};
pub use orlop_service::frame::{Answers, in_batches};

use crate::engine::Engine;
use crate::error::{Error, Result, status};
use crate::{rpc, rpc_containers, rpc_images, rpc_inspection, rpc_networks};

orlop_service::serve_cri!(Engine);
orlop_service::serve_inspection!(Engine);
orlop_service::serve_extensions!(Engine);

impl Backend for Engine {
    type Failure = Error;

    /// What has been begun is recorded, and gone on with by the next call.
    async fn act<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        work.await
    }
}

/// A list as a stream of batches that are made from files rather than from memory.
pub fn in_blocking_batches<T, M, F>(items: Vec<Arc<T>>, make: F) -> Answers<M>
where
    T: Send + Sync + 'static,
    M: Send + 'static,
    F: Fn(&[Arc<T>]) -> M + Send + Sync + 'static,
{
    let make = Arc::new(make);
    frame::in_slow_batches(items, move |batch| {
        let make = Arc::clone(&make);
        async move {
            let made = crate::blocking(move || Ok(make(&batch))).await;
            made.map_err(|error| status(&error))
        }
    })
}
