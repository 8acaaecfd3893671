//! `CheckpointContainer`: not supported by the engine.

use orlop_cri_api::v1::{CheckpointContainerRequest, CheckpointContainerResponse};

use crate::error::{Error, Result};
use crate::shim::Shim;

/// Returns an error with the reason.
pub(crate) async fn call(
    _: &Shim,
    _: CheckpointContainerRequest,
) -> Result<CheckpointContainerResponse> {
    let problem = "CheckpointContainer: the Docker Engine supports container checkpoints only experimentally and in its own format";
    Err(Error::Unimplemented(problem.to_owned()).into())
}
