//! `PodSandboxStats`: what one pod uses.

use orlop_cri::v1::{PodSandboxStatsRequest, PodSandboxStatsResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::{blocking, stats};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: PodSandboxStatsRequest,
) -> Result<PodSandboxStatsResponse> {
    let pod = engine.visible_pod(&request.pod_sandbox_id)?;
    let engine = engine.clone();
    let stats = blocking(move || Ok(stats::of_pod(&engine, &pod))).await?;
    Ok(PodSandboxStatsResponse { stats: Some(stats) })
}
