//! `UpdatePodSandboxResources`: accepts a change of a pod's limits. The kubelet owns the pod's cgroup, and nothing of
//! the sandbox depends on it.

use orlop_cri_api::v1::{UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse};

use crate::error::Result;
use crate::find;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: UpdatePodSandboxResourcesRequest,
) -> Result<UpdatePodSandboxResourcesResponse> {
    find::sandbox(&shim.docker, &request.pod_sandbox_id).await?;
    Ok(UpdatePodSandboxResourcesResponse {})
}
