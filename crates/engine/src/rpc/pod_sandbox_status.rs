//! `PodSandboxStatus`: one pod and its containers.

use std::collections::HashMap;

use orlop_cri::json;
use orlop_cri::v1::{PodSandboxStatusRequest, PodSandboxStatusResponse};
use serde_json::json as object;

use crate::engine::Engine;
use crate::error::Result;
use crate::messages::{container_status, pod_status};
use crate::pod::Pod;

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: PodSandboxStatusRequest,
) -> Result<PodSandboxStatusResponse> {
    let pod = engine.visible_pod(&request.pod_sandbox_id)?;
    let containers = engine.containers_of(&pod);
    Ok(PodSandboxStatusResponse {
        status: Some(pod_status(&pod)),
        info: if request.verbose {
            info(&pod)
        } else {
            HashMap::new()
        },
        containers_statuses: containers
            .iter()
            .filter(|container| container.visible())
            .map(|container| container_status(container))
            .collect(),
        timestamp: crate::clock::now(),
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
