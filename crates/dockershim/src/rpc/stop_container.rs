//! `StopContainer`: stops a container with its stop signal, then by force. Idempotent.

use std::time::Duration;

use orlop_cri_api::v1::{StopContainerRequest, StopContainerResponse};

use crate::error::{Error, Result};
use crate::find;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: StopContainerRequest,
) -> Result<StopContainerResponse> {
    // A negative timeout counts as zero.
    let grace = Duration::from_secs(u64::try_from(request.timeout).unwrap_or(0));
    let found = match find::container(&shim.docker, &request.container_id).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(StopContainerResponse {}),
        Err(error) => return Err(error),
    };
    match shim.docker.stop_container(&found.id, grace).await {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => {
            return Err(Error::engine(format!("stopping container {}", found.id))(error).into());
        }
    }
    Ok(StopContainerResponse {})
}
