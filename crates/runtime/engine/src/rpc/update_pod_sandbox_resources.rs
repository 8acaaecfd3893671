//! `UpdatePodSandboxResources`: what the pod as a whole gets from now on.
//!
//! A kubelet makes the pods' cgroups and sets their limits itself, after this call: nothing of its
//! cgroup is touched here. A pod whose client named no cgroup has one of ours.

use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::{UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse};
use prost::Message as _;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::record::pod::{Event, Phase, Pod};
use crate::stats::within;
use crate::{blocking, nri, spec};

/// A controller that was told has answered by then.
const UPDATE_LIMIT: Duration = Duration::from_secs(12);

/// Answers the call.
pub async fn call(
    Engine(node): &Engine,
    request: UpdatePodSandboxResourcesRequest,
) -> Result<UpdatePodSandboxResourcesResponse> {
    let pod = node.pods.visible(&request.pod_sandbox_id)?;
    let node_too = Arc::clone(node);
    node.finish(async move { update(&node_too, &pod, request).await })
        .await?;
    Ok(UpdatePodSandboxResourcesResponse {})
}

async fn update(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    request: UpdatePodSandboxResourcesRequest,
) -> Result<()> {
    let _turn = pod.turn.write().await;
    let resources = request.resources.clone().or_else(|| pod.resources());
    let overhead = request.overhead.clone().or_else(|| pod.overhead());
    let limits =
        spec::pod_limits(resources.as_ref(), overhead.as_ref(), &node.host).map_err(Error::Spec)?;
    // Now plugins may refuse it; they see the pod as it is before.
    let _hold = node.nri.hold().await;
    nri::pod_updating(node, pod, overhead.as_ref(), resources.as_ref()).await?;
    if pod.phase() == Phase::Ready {
        node.cgroups.limit_pod(pod, limits).await?;
        tell_controller(node, pod, &request).await?;
    }
    let updated = Event::Updated {
        resources: Box::new(resources.unwrap_or_default()),
        overhead: Box::new(overhead.unwrap_or_default()),
    };
    pod.record(updated).await?;
    nri::post_pod_updated(node, pod).await;
    Ok(())
}

/// Who has made a sandbox for the pod may have to make room in it.
async fn tell_controller(
    node: &Arc<Node>,
    pod: &Arc<Pod>,
    request: &UpdatePodSandboxResourcesRequest,
) -> Result<()> {
    if !node.runtimes.of(pod)?.settings.has_controller() {
        return Ok(());
    }
    let question = format!(
        "?update\n{}\n",
        orlop_text::hex::encode(&request.encode_to_vec())
    );
    let (node, pod) = (Arc::clone(node), Arc::clone(pod));
    blocking(move || {
        // A sandbox that nobody watches over is down, and told so elsewhere.
        match within::ask(&node.runtimes, &pod, &question, UPDATE_LIMIT) {
            Some(problem) if problem != "done" => Err(Error::Precondition(problem).into()),
            _ => Ok(()),
        }
    })
    .await
}
