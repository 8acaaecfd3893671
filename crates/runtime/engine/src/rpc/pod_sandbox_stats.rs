//! `PodSandboxStats`: returns the resource usage of one pod.

use std::sync::Arc;

use orlop_cri_api::v1::{PodSandboxStatsRequest, PodSandboxStatsResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::{blocking, stats};

/// Handles the `PodSandboxStats` call.
pub async fn call(
    Engine(node): &Engine,
    request: PodSandboxStatsRequest,
) -> Result<PodSandboxStatsResponse> {
    let pod = node.pods.visible(&request.pod_sandbox_id)?;
    let node = Arc::clone(node);
    let stats = blocking(move || Ok(stats::of_pod(&node, &pod))).await?;
    Ok(PodSandboxStatsResponse { stats: Some(stats) })
}
