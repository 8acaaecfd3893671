//! `ListContainerStats`: resource usage of the running containers.

use orlop_cri_api::v1::{ListContainerStatsRequest, ListContainerStatsResponse};

use crate::error::Result;
use crate::shim::Shim;
use crate::stats;

pub(crate) async fn call(
    shim: &Shim,
    request: ListContainerStatsRequest,
) -> Result<ListContainerStatsResponse> {
    let stats = stats::listed_containers(&shim.stats, request.filter).await?;
    Ok(ListContainerStatsResponse { stats })
}
