//! The CRI services; each call is passed to the file of its name in `rpc/`, `rpc_images/` ….

use orlop_cri_server::frame::Backend;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::{rpc, rpc_containers, rpc_images, rpc_inspection, rpc_networks};

orlop_cri_server::serve_cri!(Engine);
orlop_cri_server::serve_inspection!(Engine);
orlop_cri_server::serve_images!(Engine);
orlop_cri_server::serve_extensions!(Engine);

impl Backend for Engine {
    type Failure = Error;

    /// Work that has begun is recorded; the next call continues it.
    async fn act<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        work.await
    }
}
