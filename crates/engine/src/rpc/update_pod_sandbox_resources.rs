//! `UpdatePodSandboxResources`: what the pod as a whole gets from now on.
//!
//! A kubelet makes the pods' cgroups and sets their limits itself, after this call: nothing of its
//! cgroup is touched here. A pod whose client named no cgroup has one of ours.

use std::sync::Arc;

use orlop_cri::v1::{
    LinuxContainerResources, UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse,
};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::record::pod::{Event, Phase, Pod};
use crate::{nri, spec};

/// Answers the call.
pub async fn call(
    Engine(node): &Engine,
    request: UpdatePodSandboxResourcesRequest,
) -> Result<UpdatePodSandboxResourcesResponse> {
    let pod = node.pods.visible(&request.pod_sandbox_id)?;
    let node_too = Arc::clone(node);
    node.finish(async move { update(&node_too, &pod, request.resources, request.overhead).await })
        .await?;
    Ok(UpdatePodSandboxResourcesResponse {})
}

async fn update(
    node: &Node,
    pod: &Arc<Pod>,
    resources: Option<LinuxContainerResources>,
    overhead: Option<LinuxContainerResources>,
) -> Result<()> {
    let _turn = pod.turn.write().await;
    let resources = resources.or_else(|| pod.resources());
    let overhead = overhead.or_else(|| pod.overhead());
    let limits =
        spec::pod_limits(resources.as_ref(), overhead.as_ref(), &node.host).map_err(Error::Spec)?;
    // Now plugins may refuse it; they see the pod as it is before.
    let _hold = node.nri.hold().await;
    nri::pod_updating(node, pod, overhead.as_ref(), resources.as_ref()).await?;
    if pod.phase() == Phase::Ready {
        node.cgroups.limit_pod(pod, limits).await?;
    }
    let updated = Event::Updated {
        resources: Box::new(resources.unwrap_or_default()),
        overhead: Box::new(overhead.unwrap_or_default()),
    };
    pod.record(updated).await?;
    nri::post_pod_updated(node, pod).await;
    Ok(())
}
