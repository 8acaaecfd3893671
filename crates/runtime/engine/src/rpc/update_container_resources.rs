//! `UpdateContainerResources`: changes the limits of a created or running container.

use std::sync::Arc;

use orlop_cri_api::v1::{
    LinuxContainerResources, UpdateContainerResourcesRequest, UpdateContainerResourcesResponse,
};

use crate::container::limits;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::nri;
use crate::record::container::Container;

/// Handles the `UpdateContainerResources` call.
pub async fn call(
    Engine(node): &Engine,
    request: UpdateContainerResourcesRequest,
) -> Result<UpdateContainerResourcesResponse> {
    let container = node.containers.find(&request.container_id)?;
    let asked = request
        .linux
        .ok_or_else(|| Error::invalid("linux", "is missing; there is nothing to update"))?;
    let node_too = Arc::clone(node);
    node.finish(async move { update(&node_too, &container, asked).await })
        .await?;
    Ok(UpdateContainerResourcesResponse {})
}

async fn update(
    node: &Node,
    container: &Arc<Container>,
    asked: LinuxContainerResources,
) -> Result<()> {
    // Plugins do not get an invalid request.
    let requested = limits::of_request(&node.host, container, &asked)?;
    let _hold = node.nri.hold().await;
    let change = match nri::updating(node, container, &asked).await? {
        Some(wanted) => limits::of_plugin(&node.host, container, &wanted)?,
        None => requested,
    };
    {
        let _turn = container.turn.lock().await;
        limits::change(&node.cgroups, &node.runtimes, container, &change).await?;
    }
    nri::post_updated(node, container).await;
    Ok(())
}
