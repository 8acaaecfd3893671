//! `ListPodSandboxMetrics`: returns the metrics of the ready pods.

use std::sync::Arc;

use futures_util::future::try_join_all;
use orlop_cri_api::v1::{ListPodSandboxMetricsRequest, ListPodSandboxMetricsResponse};

use super::list_pod_sandbox_stats::chosen;
use crate::blocking;
use crate::engine::Engine;
use crate::error::Result;
use crate::stats::metrics::{self, Disk};

/// Number of threads that read metrics in parallel. Most of the time is spent in the kernel.
const SHARES: usize = 2;

/// Smallest number of pods for a thread.
const SMALLEST_SHARE: usize = 32;

/// Handles the `ListPodSandboxMetrics` call.
pub async fn call(
    Engine(node): &Engine,
    _: ListPodSandboxMetricsRequest,
) -> Result<ListPodSandboxMetricsResponse> {
    let pods = chosen(&node.pods, None);
    let share = pods.len().div_ceil(SHARES).max(SMALLEST_SHARE);
    let reading = pods.chunks(share).map(|share| {
        let (node, share) = (Arc::clone(node), share.to_vec());
        blocking(move || {
            let mut disk = Disk::at(&node.config().containers_root);
            let pods = share.iter();
            Ok(pods
                .map(|pod| metrics::of_pod(&node, pod, &mut disk))
                .collect::<Vec<_>>())
        })
    });
    let read = try_join_all(reading).await?;
    Ok(ListPodSandboxMetricsResponse {
        pod_metrics: read.into_iter().flatten().collect(),
    })
}
