//! `StreamContainers`: the containers, a few at a time, each made when its turn comes.

use orlop_cri::v1::{StreamContainersRequest, StreamContainersResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::messages::listed_container;
use crate::service::{Answers, in_batches};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: StreamContainersRequest,
) -> Result<Answers<StreamContainersResponse>> {
    let containers = engine.visible_containers(request.filter.as_ref());
    Ok(in_batches(containers, |batch| StreamContainersResponse {
        containers: batch
            .iter()
            .map(|container| listed_container(container))
            .collect(),
    }))
}
