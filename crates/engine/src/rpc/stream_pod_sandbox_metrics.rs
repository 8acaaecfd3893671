//! `StreamPodSandboxMetrics`: not built yet.

use orlop_cri::v1::{StreamPodSandboxMetricsRequest, StreamPodSandboxMetricsResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::service::Answers;

/// Answers that there is no such thing here.
pub async fn call(
    _: &Engine,
    _: StreamPodSandboxMetricsRequest,
) -> Result<Answers<StreamPodSandboxMetricsResponse>> {
    Err(Error::Unimplemented("StreamPodSandboxMetrics").into())
}
