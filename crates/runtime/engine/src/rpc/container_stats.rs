//! `ContainerStats`: returns the resource usage of one container.

use std::sync::Arc;

use orlop_cri_api::v1::{ContainerStatsRequest, ContainerStatsResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::{blocking, stats};

/// Handles the `ContainerStats` call.
pub async fn call(
    Engine(node): &Engine,
    request: ContainerStatsRequest,
) -> Result<ContainerStatsResponse> {
    let container = node.containers.visible(&request.container_id)?;
    let node = Arc::clone(node);
    let stats = blocking(move || Ok(stats::of_container(&node, &container))).await?;
    Ok(ContainerStatsResponse { stats: Some(stats) })
}
