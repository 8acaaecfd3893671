//! `ImageFsInfo`: how much the images take, and where.

use orlop_cri_api::v1::{ImageFsInfoRequest, ImageFsInfoResponse};

use crate::error::Result;
use crate::shim::Shim;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, _: ImageFsInfoRequest) -> Result<ImageFsInfoResponse> {
    let usage = shim.image_usage.get().await?;
    // Writable layers lie on the same file system as the images.
    Ok(ImageFsInfoResponse {
        image_filesystems: vec![usage.clone()],
        container_filesystems: vec![usage],
    })
}
