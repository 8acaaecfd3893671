//! `UpdatePodSandboxResources`: tells that a pod's limits have changed. The pod's cgroup is the
//! kubelet's own, and nothing of the sandbox depends on it.

use orlop_cri_api::v1::{UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse};

use crate::error::Result;
use crate::find;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(
    shim: &Shim,
    request: UpdatePodSandboxResourcesRequest,
) -> Result<UpdatePodSandboxResourcesResponse> {
    find::sandbox(&shim.docker, &request.pod_sandbox_id).await?;
    Ok(UpdatePodSandboxResourcesResponse {})
}
