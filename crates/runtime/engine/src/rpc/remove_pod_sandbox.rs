//! `RemovePodSandbox`: removes a pod with its containers.

use std::sync::Arc;

use orlop_cri_api::v1::{RemovePodSandboxRequest, RemovePodSandboxResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::node::Work;
use crate::pod::teardown;

/// Handles the `RemovePodSandbox` call. Succeeds if the pod does not exist.
pub async fn call(
    Engine(node): &Engine,
    request: RemovePodSandboxRequest,
) -> Result<RemovePodSandboxResponse> {
    if let Some(pod) = node.pods.find_if_any(&request.pod_sandbox_id)? {
        let work = (Work::RemovePod, pod.id.to_string());
        let node_too = Arc::clone(node);
        node.works
            .run(
                work,
                || async move { teardown::remove(&node_too, &pod).await },
            )
            .await?;
    }
    Ok(RemovePodSandboxResponse {})
}
