//! `StopPodSandbox`: ends the pod's containers and gives its network back.

use orlop_cri::v1::{StopPodSandboxRequest, StopPodSandboxResponse};

use crate::engine::{Engine, Work};
use crate::error::Result;
use crate::teardown;

/// Answers the call. A pod that is not there is stopped.
pub async fn call(
    engine: &Engine,
    request: StopPodSandboxRequest,
) -> Result<StopPodSandboxResponse> {
    if let Some(pod) = engine.pods.find_if_any(&request.pod_sandbox_id)? {
        let work = (Work::StopPod, pod.id.to_string());
        let engine_too = engine.clone();
        engine
            .works
            .run(work, || async move {
                teardown::stop_visible(&engine_too, &pod).await
            })
            .await?;
    }
    Ok(StopPodSandboxResponse {})
}
