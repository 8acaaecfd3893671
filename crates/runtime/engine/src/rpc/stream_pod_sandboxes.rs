//! `StreamPodSandboxes`: streams the pods in batches, each built when the client receives it.

use orlop_cri_api::v1::{StreamPodSandboxesRequest, StreamPodSandboxesResponse};

use crate::batches::{Answers, in_batches};
use crate::engine::Engine;
use crate::error::Result;
use crate::record::messages::listed_pod;

/// Handles the `StreamPodSandboxes` call.
pub async fn call(
    Engine(node): &Engine,
    request: StreamPodSandboxesRequest,
) -> Result<Answers<StreamPodSandboxesResponse>> {
    let pods = node.pods.chosen(request.filter.as_ref());
    Ok(in_batches(pods, |batch| StreamPodSandboxesResponse {
        pod_sandboxes: batch.iter().map(|pod| listed_pod(pod)).collect(),
    }))
}
