//! `ListImages`: the images of this node.

use orlop_cri::v1::{ListImagesRequest, ListImagesResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::image::{chosen, listed};

/// Answers the call.
pub async fn call(Engine(node): &Engine, request: ListImagesRequest) -> Result<ListImagesResponse> {
    let images = chosen(&node.images, request.filter.as_ref())?;
    Ok(ListImagesResponse {
        images: images.iter().map(|image| listed(image)).collect(),
    })
}
