//! `StreamImages`: streams the images on this node in batches, each built when the client receives it.

use orlop_cri_api::v1::{StreamImagesRequest, StreamImagesResponse};

use crate::batches::{Answers, in_batches};
use crate::engine::Engine;
use crate::error::Result;
use crate::image::{all_listed, chosen};

/// Handles the `StreamImages` call.
pub async fn call(
    Engine(node): &Engine,
    request: StreamImagesRequest,
) -> Result<Answers<StreamImagesResponse>> {
    let images = chosen(&node.images, request.filter.as_ref()).await?;
    Ok(in_batches(images, |batch| StreamImagesResponse {
        images: batch.iter().flat_map(|image| all_listed(image)).collect(),
    }))
}
