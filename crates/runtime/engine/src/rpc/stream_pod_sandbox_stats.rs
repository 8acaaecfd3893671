//! `StreamPodSandboxStats`: streams the resource usage of the ready pods, read as the client receives it.

use std::sync::Arc;

use orlop_cri_api::v1::{StreamPodSandboxStatsRequest, StreamPodSandboxStatsResponse};

use super::list_pod_sandbox_stats::chosen;
use crate::batches::{Answers, in_blocking_batches};
use crate::engine::Engine;
use crate::error::Result;
use crate::stats;

/// Handles the `StreamPodSandboxStats` call.
pub async fn call(
    Engine(node): &Engine,
    request: StreamPodSandboxStatsRequest,
) -> Result<Answers<StreamPodSandboxStatsResponse>> {
    let pods = chosen(&node.pods, request.filter);
    let node = Arc::clone(node);
    Ok(in_blocking_batches(pods, move |batch| {
        StreamPodSandboxStatsResponse {
            pod_sandbox_stats: batch.iter().map(|pod| stats::of_pod(&node, pod)).collect(),
        }
    }))
}
