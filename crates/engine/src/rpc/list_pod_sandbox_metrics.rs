//! `ListPodSandboxMetrics`: not built yet.

use orlop_cri::v1::{ListPodSandboxMetricsRequest, ListPodSandboxMetricsResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers that there is no such thing here.
pub async fn call(
    _: &Engine,
    _: ListPodSandboxMetricsRequest,
) -> Result<ListPodSandboxMetricsResponse> {
    Err(Error::Unimplemented("ListPodSandboxMetrics").into())
}
