//! `StreamContainers`: the containers, a few at a time, each made when its turn comes.

use orlop_cri_api::v1::{StreamContainersRequest, StreamContainersResponse};

use crate::batches::{Answers, in_batches};
use crate::engine::Engine;
use crate::error::Result;
use crate::record::messages::listed_container;

/// Answers the call.
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
