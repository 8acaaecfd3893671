//! `ListContainerStats`: returns the resource usage of the running containers.

use std::sync::Arc;

use orlop_cri_api::v1::{
    ContainerFilter, ContainerStateValue, ContainerStatsFilter, ListContainerStatsRequest,
    ListContainerStatsResponse,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::record::container::Container;
use crate::record::containers::Containers;
use crate::{blocking, stats};

/// Handles the `ListContainerStats` call.
pub async fn call(
    Engine(node): &Engine,
    request: ListContainerStatsRequest,
) -> Result<ListContainerStatsResponse> {
    let containers = chosen(&node.containers, request.filter);
    let node = Arc::clone(node);
    let stats = blocking(move || {
        Ok(containers
            .iter()
            .map(|container| stats::of_container(&node, container))
            .collect())
    })
    .await?;
    Ok(ListContainerStatsResponse { stats })
}

/// Returns the running containers that match a filter.
pub fn chosen(
    containers: &Containers,
    filter: Option<ContainerStatsFilter>,
) -> Vec<Arc<Container>> {
    let filter = filter.unwrap_or_default();
    let running = ContainerStateValue {
        state: orlop_cri_api::v1::ContainerState::ContainerRunning.into(),
    };
    containers.chosen(Some(&ContainerFilter {
        id: filter.id,
        state: Some(running),
        pod_sandbox_id: filter.pod_sandbox_id,
        label_selector: filter.label_selector,
    }))
}
