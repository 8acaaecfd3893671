//! `CheckpointContainer`: not built yet.

use orlop_cri::v1::{CheckpointContainerRequest, CheckpointContainerResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers that there is no such thing here.
pub async fn call(
    _: &Engine,
    _: CheckpointContainerRequest,
) -> Result<CheckpointContainerResponse> {
    Err(Error::Unimplemented("CheckpointContainer").into())
}
