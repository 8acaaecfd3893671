//! `StreamImages`: the images of this node, a few at a time, each made when its turn comes.

use orlop_cri::v1::{StreamImagesRequest, StreamImagesResponse};

use crate::engine::Engine;
use crate::error::Result;
use crate::images::{chosen, listed};
use crate::service::{Answers, in_batches};

/// Answers the call.
pub async fn call(
    engine: &Engine,
    request: StreamImagesRequest,
) -> Result<Answers<StreamImagesResponse>> {
    let images = chosen(engine, request.filter.as_ref())?;
    Ok(in_batches(images, |batch| StreamImagesResponse {
        images: batch.iter().map(|image| listed(image)).collect(),
    }))
}
