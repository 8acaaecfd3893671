//! `StopPodSandbox`: stops the pod's containers and releases its network.

use std::sync::Arc;

use orlop_cri_api::v1::{StopPodSandboxRequest, StopPodSandboxResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::node::Work;
use crate::pod::teardown;

/// Handles the `StopPodSandbox` call. Succeeds if the pod does not exist.
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
