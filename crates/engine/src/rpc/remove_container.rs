//! `RemoveContainer`: leaves nothing of a container; one that runs is killed first.

use orlop_cri::v1::{RemoveContainerRequest, RemoveContainerResponse};

use crate::engine::{Engine, Work};
use crate::error::Result;
use crate::teardown;

/// Answers the call. A container that is not there is removed.
pub async fn call(
    engine: &Engine,
    request: RemoveContainerRequest,
) -> Result<RemoveContainerResponse> {
    if let Some(container) = engine.containers.find_if_any(&request.container_id)? {
        let work = (Work::RemoveContainer, container.id.to_string());
        let engine_too = engine.clone();
        engine
            .works
            .run(work, || async move {
                teardown::remove_container(&engine_too, &container).await
            })
            .await?;
    }
    Ok(RemoveContainerResponse {})
}
