//! `StopContainer`: signals a container to stop, and kills it after the timeout.

use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::{StopContainerRequest, StopContainerResponse};

use crate::container::process;
use crate::engine::Engine;
use crate::error::Result;
use crate::nri;
use crate::record::container::Phase;

/// Handles the `StopContainer` call. Succeeds if the container does not exist. The stop continues if the client
/// disconnects; a second call with a shorter timeout overtakes the first.
pub async fn call(
    Engine(node): &Engine,
    request: StopContainerRequest,
) -> Result<StopContainerResponse> {
    if let Some(container) = node.containers.find_if_any(&request.container_id)? {
        let grace = Duration::from_secs(request.timeout.try_into().unwrap_or(0));
        let node_too = Arc::clone(node);
        node.finish(async move {
            process::wait_for_start(&container).await?;
            process::stop(&node_too, &container, grace).await?;
            if container.phase() == Phase::Exited {
                nri::container_stopped(&node_too, &container).await;
            }
            Ok(())
        })
        .await?;
    }
    Ok(StopContainerResponse {})
}
