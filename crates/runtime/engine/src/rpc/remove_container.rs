//! `RemoveContainer`: removes a container; kills it first if it runs.

use std::sync::Arc;

use orlop_cri_api::v1::{RemoveContainerRequest, RemoveContainerResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::node::Work;
use crate::pod::teardown;

/// Handles the `RemoveContainer` call. Succeeds if the container does not exist.
pub async fn call(
    Engine(node): &Engine,
    request: RemoveContainerRequest,
) -> Result<RemoveContainerResponse> {
    if let Some(container) = node.containers.find_if_any(&request.container_id)? {
        let work = (Work::RemoveContainer, container.id.to_string());
        let node_too = Arc::clone(node);
        node.works
            .run(work, || async move {
                teardown::remove_container(&node_too, &container).await
            })
            .await?;
    }
    Ok(RemoveContainerResponse {})
}
