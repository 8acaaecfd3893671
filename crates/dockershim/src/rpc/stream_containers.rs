//! `StreamContainers`: the containers, in chunks.

use orlop_cri_api::v1::{ListContainersRequest, StreamContainersRequest, StreamContainersResponse};
use orlop_cri_server::frame::{Answers, in_batches};

use crate::error::Result;
use crate::rpc::list_containers;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: StreamContainersRequest,
) -> Result<Answers<StreamContainersResponse>> {
    let request = ListContainersRequest {
        filter: request.filter,
    };
    let all = list_containers::call(shim, request).await?.containers;
    Ok(in_batches(all, |containers| StreamContainersResponse {
        containers,
    }))
}
