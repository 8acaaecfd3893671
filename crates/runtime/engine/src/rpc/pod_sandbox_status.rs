//! `PodSandboxStatus`: returns the status of one pod and its containers.

use std::collections::HashMap;
use std::sync::Arc;

use orlop_cri_api::json;
use orlop_cri_api::v1::{PodSandboxStatusRequest, PodSandboxStatusResponse};
use serde_json::json as object;

use crate::blocking;
use crate::engine::Engine;
use crate::error::Result;
use crate::node::Node;
use crate::record::messages::pod_status;
use crate::record::pod::{Phase, Pod};
use crate::stats::within;

/// Handles the `PodSandboxStatus` call.
pub async fn call(
    Engine(node): &Engine,
    request: PodSandboxStatusRequest,
) -> Result<PodSandboxStatusResponse> {
    let pod = node.pods.visible(&request.pod_sandbox_id)?;
    // Taken before the state is read, so that events during the read count as newer.
    let timestamp = crate::clock::now();
    let told = sandbox(node, &pod, request.verbose).await;
    let (word, known) = told.split_once('\n').unwrap_or_default();
    if word == "down" {
        pod.shared_down();
    }
    let mut said = HashMap::new();
    if request.verbose {
        said.insert("info".to_owned(), info(&pod));
        if !known.is_empty() {
            said.insert("sandbox".to_owned(), known.to_owned());
        }
    }
    Ok(PodSandboxStatusResponse {
        status: Some(pod_status(&pod)),
        info: said,
        containers_statuses: node.containers.statuses_of(&pod),
        timestamp,
    })
}

/// Asks the controller of the pod's sandbox for its status.
async fn sandbox(node: &Arc<Node>, pod: &Arc<Pod>, verbose: bool) -> String {
    let handler = node.runtimes.of(pod);
    let asked = handler.is_ok_and(|handler| verbose || handler.settings.has_controller());
    if !asked || pod.phase() != Phase::Ready {
        return String::new();
    }
    let (node, pod) = (Arc::clone(node), Arc::clone(pod));
    let ask = move || {
        let told = within::ask(&node.runtimes, &pod, "?status\n\n", within::LIMIT);
        Ok(told.unwrap_or_default())
    };
    blocking(ask).await.unwrap_or_default()
}

fn info(pod: &Pod) -> String {
    let now = pod.now();
    let info = object!({
        "keeperPid": now.keeper.as_ref().map(orlop_launch::Keeper::pid),
        "directory": pod.dir,
        "runDirectory": pod.run,
        "runtimeHandler": pod.handler,
        "network": now.network,
        "resources": pod.resources().as_ref().map(json::to_value),
        "overhead": pod.overhead().as_ref().map(json::to_value),
    });
    info.to_string()
}
