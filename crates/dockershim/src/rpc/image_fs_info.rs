//! `ImageFsInfo`: the disk usage and file system of the images.

use orlop_cri_api::v1::{ImageFsInfoRequest, ImageFsInfoResponse};

use crate::error::Result;
use crate::shim::Shim;

pub(crate) async fn call(shim: &Shim, _: ImageFsInfoRequest) -> Result<ImageFsInfoResponse> {
    let usage = shim.image_usage.get().await?;
    // Writable layers are on the same file system as the images.
    Ok(ImageFsInfoResponse {
        image_filesystems: vec![usage.clone()],
        container_filesystems: vec![usage],
    })
}
