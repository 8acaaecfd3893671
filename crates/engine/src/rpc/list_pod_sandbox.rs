//! `ListPodSandbox`: the pods, from memory.

use orlop_cri::v1::{ListPodSandboxRequest, ListPodSandboxResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::messages::listed_pod;

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: ListPodSandboxRequest,
) -> Result<ListPodSandboxResponse> {
    let pods = engine.visible_pods(request.filter.as_ref());
    Ok(ListPodSandboxResponse {
        items: pods.iter().map(|pod| listed_pod(pod)).collect(),
    })
}
