//! `RemovePodSandbox`: leaves nothing of a pod.

use orlop_cri::v1::{RemovePodSandboxRequest, RemovePodSandboxResponse};

use crate::engine::{Engine, Work};
use crate::error::Result;
use crate::teardown;

/// Answers the call. A pod that is not there is removed.
pub async fn call(
    engine: &Engine,
    request: RemovePodSandboxRequest,
) -> Result<RemovePodSandboxResponse> {
    if let Some(pod) = engine.pods.find_if_any(&request.pod_sandbox_id)? {
        let work = (Work::RemovePod, pod.id.to_string());
        let engine_too = engine.clone();
        engine
            .works
            .run(
                work,
                || async move { teardown::remove(&engine_too, &pod).await },
            )
            .await?;
    }
    Ok(RemovePodSandboxResponse {})
}
