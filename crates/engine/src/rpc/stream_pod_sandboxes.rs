//! `StreamPodSandboxes`: the pods, a few at a time, each made when its turn comes.

use orlop_cri::v1::{StreamPodSandboxesRequest, StreamPodSandboxesResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::messages::listed_pod;
use crate::service::{Answers, in_batches};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: StreamPodSandboxesRequest,
) -> Result<Answers<StreamPodSandboxesResponse>> {
    let pods = engine.visible_pods(request.filter.as_ref());
    Ok(in_batches(pods, |batch| StreamPodSandboxesResponse {
        pod_sandboxes: batch.iter().map(|pod| listed_pod(pod)).collect(),
    }))
}
