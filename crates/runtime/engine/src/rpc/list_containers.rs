//! `ListContainers`: returns the containers from memory.

use orlop_cri_api::v1::{ListContainersRequest, ListContainersResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::record::messages::listed_container;

/// Handles the `ListContainers` call.
pub async fn call(
    Engine(node): &Engine,
    request: ListContainersRequest,
) -> Result<ListContainersResponse> {
    let containers = node.containers.chosen(request.filter.as_ref());
    Ok(ListContainersResponse {
        containers: containers
            .iter()
            .map(|container| listed_container(container))
            .collect(),
    })
}
