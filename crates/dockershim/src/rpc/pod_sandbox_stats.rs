//! `PodSandboxStats`: resource usage of a pod.

use orlop_cri_api::v1::{PodSandboxStatsRequest, PodSandboxStatsResponse};

use crate::error::Result;
use crate::shim::Shim;
use crate::stats;

pub(crate) async fn call(
    shim: &Shim,
    request: PodSandboxStatsRequest,
) -> Result<PodSandboxStatsResponse> {
    let stats = stats::of_pod(&shim.stats, &request.pod_sandbox_id).await?;
    Ok(PodSandboxStatsResponse { stats: Some(stats) })
}
