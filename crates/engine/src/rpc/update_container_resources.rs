//! `UpdateContainerResources`: new limits for a container, running or not yet started.

use std::sync::Arc;

use orlop_cri::v1::{
    LinuxContainerResources, UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
};

use crate::container::Container;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::{limits, nri};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: UpdateContainerResourcesRequest,
) -> Result<UpdateContainerResourcesResponse> {
    let container = engine.containers.find(&request.container_id)?;
    let asked = request
        .linux
        .ok_or_else(|| Error::invalid("linux", "is missing; there is nothing to update"))?;
    let engine_too = engine.clone();
    engine
        .finish(async move { update(&engine_too, &container, asked).await })
        .await?;
    Ok(UpdateContainerResourcesResponse {})
}

async fn update(
    engine: &Engine,
    container: &Arc<Container>,
    asked: LinuxContainerResources,
) -> Result<()> {
    // What is wrong with the request plugins need not know.
    let requested = limits::of_request(engine, container, &asked)?;
    let _hold = engine.nri.hold().await;
    let change = match nri::updating(engine, container, &asked).await? {
        Some(wanted) => limits::of_plugin(engine, container, &wanted)?,
        None => requested,
    };
    {
        let _turn = container.turn.lock().await;
        limits::change(engine, container, &change).await?;
    }
    nri::post_updated(engine, container).await;
    Ok(())
}
