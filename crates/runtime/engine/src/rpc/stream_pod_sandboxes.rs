//! `StreamPodSandboxes`: the pods, a few at a time, each made when its turn comes.

use orlop_cri_api::v1::{StreamPodSandboxesRequest, StreamPodSandboxesResponse};

use crate::batches::{Answers, in_batches};
use crate::engine::Engine;
use crate::error::Result;
use crate::record::messages::listed_pod;

/// Answers the call.
pub async fn call(
    Engine(node): &Engine,
    request: StreamPodSandboxesRequest,
) -> Result<Answers<StreamPodSandboxesResponse>> {
    let pods = node.pods.chosen(request.filter.as_ref());
    Ok(in_batches(pods, |batch| StreamPodSandboxesResponse {
        pod_sandboxes: batch.iter().map(|pod| listed_pod(pod)).collect(),
    }))
}
