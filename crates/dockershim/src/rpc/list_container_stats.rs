//! `ListContainerStats`: what the running containers use.

use orlop_cri_api::v1::{ListContainerStatsRequest, ListContainerStatsResponse};

use crate::error::Result;
use crate::shim::Shim;
use crate::stats;

/// Answers the call.
pub(crate) async fn call(
    shim: &Shim,
    request: ListContainerStatsRequest,
) -> Result<ListContainerStatsResponse> {
    let stats = stats::listed_containers(&shim.stats, request.filter).await?;
    Ok(ListContainerStatsResponse { stats })
}
