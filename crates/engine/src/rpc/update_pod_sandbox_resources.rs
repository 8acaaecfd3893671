//! `UpdatePodSandboxResources`: not built yet.

use orlop_cri::v1::{UpdatePodSandboxResourcesRequest, UpdatePodSandboxResourcesResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers that there is no such thing here.
pub async fn call(
    _: &Engine,
    _: UpdatePodSandboxResourcesRequest,
) -> Result<UpdatePodSandboxResourcesResponse> {
    Err(Error::Unimplemented("UpdatePodSandboxResources").into())
}
