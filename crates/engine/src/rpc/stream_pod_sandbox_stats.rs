//! `StreamPodSandboxStats`: what the pods that are ready use, read as the client takes it.

use orlop_cri::v1::{StreamPodSandboxStatsRequest, StreamPodSandboxStatsResponse};

use super::list_pod_sandbox_stats::chosen;
use crate::engine::Engine;
use crate::error::Result;
use crate::service::{Answers, in_blocking_batches};
use crate::stats;

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: StreamPodSandboxStatsRequest,
) -> Result<Answers<StreamPodSandboxStatsResponse>> {
    let pods = chosen(engine, request.filter);
    let engine = engine.clone();
    Ok(in_blocking_batches(pods, move |batch| {
        StreamPodSandboxStatsResponse {
            pod_sandbox_stats: batch
                .iter()
                .map(|pod| stats::of_pod(&engine, pod))
                .collect(),
        }
    }))
}
