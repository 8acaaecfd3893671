//! `ListImagesHere`: returns how much of the lazily pulled images is on disk.

use orlop_cri_api::images::{ListImagesHereRequest, ListImagesHereResponse};
use orlop_image_store::Error::NotFound;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::image::{find, here};

/// Handles the `ListImagesHere` call.
pub async fn call(
    Engine(node): &Engine,
    request: ListImagesHereRequest,
) -> Result<ListImagesHereResponse> {
    let images = if request.image.is_empty() {
        node.images.list()
    } else {
        find(&node.images, &request.image)
            .await?
            .into_iter()
            .collect()
    };
    let mut answer = ListImagesHereResponse::default();
    for image in images {
        match here(&node.images, &image).await {
            Ok(here) => answer.images.extend(here),
            // The image was removed meanwhile.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::Image {
            source: NotFound(_),
            ..
        }
    )
}
