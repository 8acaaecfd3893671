//! `StreamPodSandboxStats`: resource usage of the pods, in chunks.

use orlop_cri_api::v1::{
    ListPodSandboxStatsRequest, StreamPodSandboxStatsRequest, StreamPodSandboxStatsResponse,
};
use orlop_cri_server::frame::{Answers, in_batches};

use crate::error::Result;
use crate::rpc::list_pod_sandbox_stats;
use crate::shim::Shim;

pub(crate) async fn call(
    shim: &Shim,
    request: StreamPodSandboxStatsRequest,
) -> Result<Answers<StreamPodSandboxStatsResponse>> {
    let request = ListPodSandboxStatsRequest {
        filter: request.filter,
    };
    let all = list_pod_sandbox_stats::call(shim, request).await?.stats;
    Ok(in_batches(all, |pod_sandbox_stats| {
        StreamPodSandboxStatsResponse { pod_sandbox_stats }
    }))
}
