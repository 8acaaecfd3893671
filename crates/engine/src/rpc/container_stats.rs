//! `ContainerStats`: what one container uses.

use orlop_cri::v1::{ContainerStatsRequest, ContainerStatsResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::{blocking, stats};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: ContainerStatsRequest,
) -> Result<ContainerStatsResponse> {
    let container = engine.containers.find(&request.container_id)?;
    if !container.visible() {
        return Err(Error::NotFound {
            what: "container",
            id: request.container_id,
        }
        .into());
    }
    let engine = engine.clone();
    let stats = blocking(move || Ok(stats::of_container(&engine, &container))).await?;
    Ok(ContainerStatsResponse { stats: Some(stats) })
}
