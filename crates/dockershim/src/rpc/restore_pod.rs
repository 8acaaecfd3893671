//! `RestorePod`: not supported by the engine.

use orlop_cri_api::v1::{RestorePodRequest, RestorePodResponse};

use crate::error::{Error, Result};
use crate::shim::Shim;

/// Returns an error with the reason.
pub(crate) async fn call(_: &Shim, _: RestorePodRequest) -> Result<RestorePodResponse> {
    let problem = "RestorePod: the Docker Engine does not support pod checkpoints";
    Err(Error::Unimplemented(problem.to_owned()).into())
}
