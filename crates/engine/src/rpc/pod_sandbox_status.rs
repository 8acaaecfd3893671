//! `PodSandboxStatus`: one pod and its containers.

use std::collections::HashMap;

use orlop_cri::json;
use orlop_cri::v1::{PodSandboxStatusRequest, PodSandboxStatusResponse};
use serde_json::json as object;

use crate::engine::Engine;
use crate::error::Result;
use crate::record::messages::pod_status;
use crate::record::pod::Pod;

/// Answers the call.
pub async fn call(
    Engine(node): &Engine,
    request: PodSandboxStatusRequest,
) -> Result<PodSandboxStatusResponse> {
    let pod = node.pods.visible(&request.pod_sandbox_id)?;
    // Before anything is looked at: an event that comes meanwhile must count as newer.
    let timestamp = crate::clock::now();
    Ok(PodSandboxStatusResponse {
        status: Some(pod_status(&pod)),
        info: if request.verbose {
            info(&pod)
        } else {
            HashMap::new()
        },
        containers_statuses: node.containers.statuses_of(&pod),
        timestamp,
    })
}

fn info(pod: &Pod) -> HashMap<String, String> {
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
    HashMap::from([("info".to_owned(), info.to_string())])
}
