//! `StopContainer`: asks a container to end, and ends it when it does not.

use std::time::Duration;

use orlop_cri::v1::{StopContainerRequest, StopContainerResponse};

use crate::container::Phase;
use crate::engine::Engine;
use crate::error::Result;
use crate::{nri, process};

/// Answers the call. A container that is not there is stopped. The stop goes on when the
/// client leaves; a second stop with a shorter timeout overtakes the first.
pub async fn call(engine: &Engine, request: StopContainerRequest) -> Result<StopContainerResponse> {
    if let Some(container) = engine.containers.find_if_any(&request.container_id)? {
        let grace = Duration::from_secs(request.timeout.try_into().unwrap_or(0));
        let engine_too = engine.clone();
        engine
            .finish(async move {
                process::stop(&engine_too, &container, grace).await?;
                if container.phase() == Phase::Exited {
                    nri::container_stopped(&engine_too, &container).await;
                }
                Ok(())
            })
            .await?;
    }
    Ok(StopContainerResponse {})
}
