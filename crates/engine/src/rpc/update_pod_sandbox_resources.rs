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
use crate::pod::{Event, Phase, Pod};
use crate::{nri, spec};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: UpdatePodSandboxResourcesRequest,
) -> Result<UpdatePodSandboxResourcesResponse> {
    let pod = engine.visible_pod(&request.pod_sandbox_id)?;
    let engine_too = engine.clone();
    engine
        .finish(async move { update(&engine_too, &pod, request.resources, request.overhead).await })
        .await?;
    Ok(UpdatePodSandboxResourcesResponse {})
}

async fn update(
    engine: &Engine,
    pod: &Arc<Pod>,
    resources: Option<LinuxContainerResources>,
    overhead: Option<LinuxContainerResources>,
) -> Result<()> {
    let _turn = pod.turn.write().await;
    let resources = resources.or_else(|| pod.resources());
    let overhead = overhead.or_else(|| pod.overhead());
    let limits = spec::pod_limits(resources.as_ref(), overhead.as_ref(), &engine.host)
        .map_err(Error::Spec)?;
    // Now plugins may refuse it; they see the pod as it is before.
    let _hold = engine.nri.hold().await;
    nri::pod_updating(engine, pod, overhead.as_ref(), resources.as_ref()).await?;
    if pod.phase() == Phase::Ready {
        engine.cgroups.limit_pod(pod, limits).await?;
    }
    let updated = Event::Updated {
        resources: Box::new(resources.unwrap_or_default()),
        overhead: Box::new(overhead.unwrap_or_default()),
    };
    pod.record(updated).await?;
    nri::post_pod_updated(engine, pod).await;
    Ok(())
}
