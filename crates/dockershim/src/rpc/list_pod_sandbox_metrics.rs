//! `ListPodSandboxMetrics`: the metrics of all running pods.

use orlop_cri_api::v1::{ListPodSandboxMetricsRequest, ListPodSandboxMetricsResponse};

use crate::error::Result;
use crate::shim::Shim;
use crate::stats;

pub(crate) async fn call(
    shim: &Shim,
    _: ListPodSandboxMetricsRequest,
) -> Result<ListPodSandboxMetricsResponse> {
    let pod_metrics = stats::all_metrics(&shim.stats).await?;
    Ok(ListPodSandboxMetricsResponse { pod_metrics })
}
