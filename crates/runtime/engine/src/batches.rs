//! Lists as streams of batches.

use std::sync::Arc;

use orlop_cri_server::frame;
pub use orlop_cri_server::frame::{Answers, in_batches};

use crate::blocking;
use crate::error::status;

/// Streams a list in batches. `make` reads files, so each batch is made on a blocking thread.
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
            let made = blocking(move || Ok(make(&batch))).await;
            made.map_err(|error| status(&error))
        }
    })
}
