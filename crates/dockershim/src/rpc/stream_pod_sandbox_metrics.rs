//! `StreamPodSandboxMetrics`: the metrics of all pods, in chunks.

use orlop_cri_api::v1::{
    ListPodSandboxMetricsRequest, StreamPodSandboxMetricsRequest, StreamPodSandboxMetricsResponse,
};
use orlop_cri_server::frame::{Answers, in_batches};

use crate::error::Result;
use crate::rpc::list_pod_sandbox_metrics;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    _: StreamPodSandboxMetricsRequest,
) -> Result<Answers<StreamPodSandboxMetricsResponse>> {
    let request = ListPodSandboxMetricsRequest {};
    let all = list_pod_sandbox_metrics::call(shim, request)
        .await?
        .pod_metrics;
    Ok(in_batches(all, |pod_sandbox_metrics| {
        StreamPodSandboxMetricsResponse {
            pod_sandbox_metrics,
        }
    }))
}
