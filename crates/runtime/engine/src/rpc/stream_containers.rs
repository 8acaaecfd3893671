//! `StreamContainers`: streams the containers in batches, each built when the client receives it.

use orlop_cri_api::v1::{StreamContainersRequest, StreamContainersResponse};

use crate::batches::{Answers, in_batches};
use crate::engine::Engine;
use crate::error::Result;
use crate::record::messages::listed_container;

/// Handles the `StreamContainers` call.
pub async fn call(
    Engine(node): &Engine,
    request: StreamContainersRequest,
) -> Result<Answers<StreamContainersResponse>> {
    let containers = node.containers.chosen(request.filter.as_ref());
    Ok(in_batches(containers, |batch| StreamContainersResponse {
        containers: batch
            .iter()
            .map(|container| listed_container(container))
            .collect(),
    }))
}
