//! `PullImage`: fetches an image through the engine.

use orlop_cri::v1::{PullImageRequest, PullImageResponse};

use crate::credentials;
use crate::error::{Error, Result};
use crate::pull;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, request: PullImageRequest) -> Result<PullImageResponse> {
    let name = request.image.map(|image| image.image).unwrap_or_default();
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty; name an image").into());
    }
    let auth = request.auth.and_then(credentials::of_request);
    let image_ref = pull::pull(shim, &name, auth).await?;
    Ok(PullImageResponse { image_ref })
}
