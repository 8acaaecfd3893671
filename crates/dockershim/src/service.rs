//! The gRPC services. Each call is delegated to the file of its name in `rpc/` or `rpc_inspection/`.

use orlop_cri_server::frame::Backend;

use crate::error::{Error, Result};
use crate::shim::Shim;
use crate::{rpc, rpc_images, rpc_inspection};

orlop_cri_server::serve_cri!(Shim);
orlop_cri_server::serve_images!(Shim);
orlop_cri_server::serve_inspection!(Shim);

impl Backend for Shim {
    type Failure = Error;

    /// Runs a call to its end, even if the client disconnects.
    async fn act<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let broken = |_| Error::Internal("the call panicked".to_owned()).into();
        self.tasks
            .spawn(work)
            .await
            .unwrap_or_else(|failure| Err(broken(failure)))
    }
}
