//! `StreamPodSandboxMetrics`: streams the metrics of the ready pods, read as the client receives them.

use std::sync::Arc;

use orlop_cri_api::v1::{StreamPodSandboxMetricsRequest, StreamPodSandboxMetricsResponse};

use super::list_pod_sandbox_stats::chosen;
use crate::batches::{Answers, in_blocking_batches};
use crate::engine::Engine;
use crate::error::Result;
use crate::stats::metrics::{self, Disk};

/// Handles the `StreamPodSandboxMetrics` call.
pub async fn call(
    Engine(node): &Engine,
    _: StreamPodSandboxMetricsRequest,
) -> Result<Answers<StreamPodSandboxMetricsResponse>> {
    let pods = chosen(&node.pods, None);
    let node = Arc::clone(node);
    Ok(in_blocking_batches(pods, move |batch| {
        let mut disk = Disk::at(&node.config().containers_root);
        StreamPodSandboxMetricsResponse {
            pod_sandbox_metrics: batch
                .iter()
                .map(|pod| metrics::of_pod(&node, pod, &mut disk))
                .collect(),
        }
    }))
}
