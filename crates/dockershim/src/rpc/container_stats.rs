//! `ContainerStats`: resource usage of a container.

use orlop_cri_api::v1::{ContainerStatsRequest, ContainerStatsResponse};

use crate::error::Result;
use crate::shim::Shim;
use crate::stats;

pub(crate) async fn call(
    shim: &Shim,
    request: ContainerStatsRequest,
) -> Result<ContainerStatsResponse> {
    let stats = stats::of_container(&shim.stats, &request.container_id).await?;
    Ok(ContainerStatsResponse { stats: Some(stats) })
}
