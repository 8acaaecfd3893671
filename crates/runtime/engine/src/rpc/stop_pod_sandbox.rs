//! `StopPodSandbox`: ends the pod's containers and gives its network back.

use std::sync::Arc;

use orlop_cri_api::v1::{StopPodSandboxRequest, StopPodSandboxResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::node::Work;
use crate::pod::teardown;

/// Answers the call. A pod that is not there is stopped.
pub async fn call(
    Engine(node): &Engine,
    request: StopPodSandboxRequest,
) -> Result<StopPodSandboxResponse> {
    if let Some(pod) = node.pods.find_if_any(&request.pod_sandbox_id)? {
        let work = (Work::StopPod, pod.id.to_string());
        let node_too = Arc::clone(node);
        node.works
            .run(work, || async move {
                teardown::stop_visible(&node_too, &pod).await
            })
            .await?;
    }
    Ok(StopPodSandboxResponse {})
}
