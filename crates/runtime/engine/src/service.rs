//! The services, each call handed to the file of its name in `rpc/`, `rpc_images/` ….

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

    /// What has been begun is recorded, and gone on with by the next call.
    async fn act<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        work.await
    }
}
