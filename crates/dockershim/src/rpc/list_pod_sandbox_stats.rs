//! `ListPodSandboxStats`: resource usage of the pods.

use orlop_cri_api::v1::{ListPodSandboxStatsRequest, ListPodSandboxStatsResponse};

use crate::error::Result;
use crate::shim::Shim;
use crate::stats;

pub(crate) async fn call(
    shim: &Shim,
    request: ListPodSandboxStatsRequest,
) -> Result<ListPodSandboxStatsResponse> {
    let stats = stats::listed_pods(&shim.stats, request.filter).await?;
    Ok(ListPodSandboxStatsResponse { stats })
}
