//! `CheckpointContainer`: nothing that an engine can do.

use orlop_cri::v1::{CheckpointContainerRequest, CheckpointContainerResponse};

use crate::error::{Error, Result};
use crate::shim::Shim;

/// Answers that it cannot be done, and why.
pub(crate) async fn call(
    _: &Shim,
    _: CheckpointContainerRequest,
) -> Result<CheckpointContainerResponse> {
    let problem = "CheckpointContainer: the Docker Engine checkpoints containers only as an experiment, into a format of its own";
    Err(Error::Unimplemented(problem.to_owned()).into())
}
