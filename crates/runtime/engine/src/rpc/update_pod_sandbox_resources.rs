//! `UpdatePodSandboxResources`: changes the resources of a pod as a whole.
//!
//! A kubelet creates the pods' cgroups and sets their limits itself, after this call. So the daemon changes only
//! cgroups that it created, for clients that name none.

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

/// Time limit for a sandbox controller to apply the update.
const UPDATE_LIMIT: Duration = Duration::from_secs(12);

/// Handles the `UpdatePodSandboxResources` call.
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
    // Plugins may reject the change; they see the pod before the change.
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

/// Forwards the update to the controller of the pod's sandbox, which may have to resize it.
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
        // A sandbox without a monitor is down, which is reported elsewhere.
        match within::ask(&node.runtimes, &pod, &question, UPDATE_LIMIT) {
            Some(problem) if problem != "done" => Err(Error::Precondition(problem).into()),
            _ => Ok(()),
        }
    })
    .await
}
