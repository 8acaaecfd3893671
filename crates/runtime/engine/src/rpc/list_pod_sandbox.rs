//! `ListPodSandbox`: returns the pods from memory.

use orlop_cri_api::v1::{ListPodSandboxRequest, ListPodSandboxResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::record::messages::listed_pod;

/// Handles the `ListPodSandbox` call.
pub async fn call(
    Engine(node): &Engine,
    request: ListPodSandboxRequest,
) -> Result<ListPodSandboxResponse> {
    let pods = node.pods.chosen(request.filter.as_ref());
    Ok(ListPodSandboxResponse {
        items: pods.iter().map(|pod| listed_pod(pod)).collect(),
    })
}
