//! `CheckpointPod`: not supported by the engine.

use orlop_cri_api::v1::{CheckpointPodRequest, CheckpointPodResponse};

use crate::error::{Error, Result};
use crate::shim::Shim;

/// Returns an error with the reason.
pub(crate) async fn call(_: &Shim, _: CheckpointPodRequest) -> Result<CheckpointPodResponse> {
    let problem = "CheckpointPod: the Docker Engine does not support pod checkpoints";
    Err(Error::Unimplemented(problem.to_owned()).into())
}
