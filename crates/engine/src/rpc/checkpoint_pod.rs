//! `CheckpointPod`: not built yet.

use orlop_cri::v1::{CheckpointPodRequest, CheckpointPodResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers that there is no such thing here.
pub async fn call(_: &Engine, _: CheckpointPodRequest) -> Result<CheckpointPodResponse> {
    Err(Error::Unimplemented("CheckpointPod").into())
}
