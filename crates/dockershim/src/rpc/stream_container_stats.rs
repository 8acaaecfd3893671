//! `StreamContainerStats`: resource usage of the running containers, in chunks.

use orlop_cri_api::v1::{
    ListContainerStatsRequest, StreamContainerStatsRequest, StreamContainerStatsResponse,
};
use orlop_cri_server::frame::{Answers, in_batches};

use crate::error::Result;
use crate::rpc::list_container_stats;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: StreamContainerStatsRequest,
) -> Result<Answers<StreamContainerStatsResponse>> {
    let request = ListContainerStatsRequest {
        filter: request.filter,
    };
    let all = list_container_stats::call(shim, request).await?.stats;
    Ok(in_batches(all, |container_stats| {
        StreamContainerStatsResponse { container_stats }
    }))
}
