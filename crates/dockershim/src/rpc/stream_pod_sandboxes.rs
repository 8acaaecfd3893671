//! `StreamPodSandboxes`: the pod sandboxes, in chunks.

use orlop_cri_api::v1::{
    ListPodSandboxRequest, StreamPodSandboxesRequest, StreamPodSandboxesResponse,
};
use orlop_cri_server::frame::{Answers, in_batches};

use crate::error::Result;
use crate::rpc::list_pod_sandbox;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: StreamPodSandboxesRequest,
) -> Result<Answers<StreamPodSandboxesResponse>> {
    let request = ListPodSandboxRequest {
        filter: request.filter,
    };
    let all = list_pod_sandbox::call(shim, request).await?.items;
    Ok(in_batches(all, |pod_sandboxes| {
        StreamPodSandboxesResponse { pod_sandboxes }
    }))
}
