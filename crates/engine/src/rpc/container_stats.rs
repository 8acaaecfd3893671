//! `ContainerStats`: what one container uses.

use orlop_cri::v1::{ContainerStatsRequest, ContainerStatsResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::{blocking, stats};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: ContainerStatsRequest,
) -> Result<ContainerStatsResponse> {
    let container = engine.visible_container(&request.container_id)?;
    let engine = engine.clone();
    let stats = blocking(move || Ok(stats::of_container(&engine, &container))).await?;
    Ok(ContainerStatsResponse { stats: Some(stats) })
}
