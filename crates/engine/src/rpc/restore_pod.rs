//! `RestorePod`: not built yet.

use orlop_cri::v1::{RestorePodRequest, RestorePodResponse};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Answers that there is no such thing here.
pub async fn call(_: &Engine, _: RestorePodRequest) -> Result<RestorePodResponse> {
    Err(Error::Unimplemented("RestorePod").into())
}
