//! `ListImages`: returns the images on this node.

use orlop_cri_api::v1::{ListImagesRequest, ListImagesResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::image::{all_listed, chosen};

/// Handles the `ListImages` call.
pub async fn call(Engine(node): &Engine, request: ListImagesRequest) -> Result<ListImagesResponse> {
    let images = chosen(&node.images, request.filter.as_ref()).await?;
    Ok(ListImagesResponse {
        images: images.iter().flat_map(|image| all_listed(image)).collect(),
    })
}
