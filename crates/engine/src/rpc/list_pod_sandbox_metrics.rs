//! `ListPodSandboxMetrics`: the metrics of the pods that are ready.

use orlop_cri::v1::{ListPodSandboxMetricsRequest, ListPodSandboxMetricsResponse};

use super::list_pod_sandbox_stats::chosen;
use crate::blocking;
use crate::engine::Engine;
use crate::error::Result;
use crate::stats::metrics;

/// Answers the call.
pub async fn call(
    engine: &Engine,
    _: ListPodSandboxMetricsRequest,
) -> Result<ListPodSandboxMetricsResponse> {
    let pods = chosen(engine, None);
    let engine = engine.clone();
    let pod_metrics = blocking(move || {
        Ok(pods
            .iter()
            .map(|pod| metrics::of_pod(&engine, pod))
            .collect())
    })
    .await?;
    Ok(ListPodSandboxMetricsResponse { pod_metrics })
}
