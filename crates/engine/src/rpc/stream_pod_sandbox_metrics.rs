//! `StreamPodSandboxMetrics`: the metrics of the pods that are ready, read as the client takes
//! them.

use orlop_cri::v1::{StreamPodSandboxMetricsRequest, StreamPodSandboxMetricsResponse};

use super::list_pod_sandbox_stats::chosen;
use crate::engine::Engine;
use crate::error::Result;
use crate::service::{Answers, in_blocking_batches};
use crate::stats::metrics::{self, Disk};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    _: StreamPodSandboxMetricsRequest,
) -> Result<Answers<StreamPodSandboxMetricsResponse>> {
    let pods = chosen(engine, None);
    let engine = engine.clone();
    Ok(in_blocking_batches(pods, move |batch| {
        let mut disk = Disk::at(&engine.config.root);
        StreamPodSandboxMetricsResponse {
            pod_sandbox_metrics: batch
                .iter()
                .map(|pod| metrics::of_pod(&engine, pod, &mut disk))
                .collect(),
        }
    }))
}
