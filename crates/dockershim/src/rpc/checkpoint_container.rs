//! `CheckpointContainer`: nothing that an engine can do.

use orlop_cri_api::v1::{CheckpointContainerRequest, CheckpointContainerResponse};

use crate::error::{Error, Result};
use crate::shim::Shim;

/// Answers that it cannot be done, and why.
pub(crate) async fn call(
    _: &Shim,
    _: CheckpointContainerRequest,
) -> Result<CheckpointContainerResponse> {
    let problem = "CheckpointContainer: the Docker Engine supports container checkpoints only experimentally and in its own format";
    Err(Error::Unimplemented(problem.to_owned()).into())
}
