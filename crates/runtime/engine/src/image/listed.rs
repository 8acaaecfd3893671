//! Conversion of images to CRI messages.

use orlop_cri_api::v1::{Image as ListedImage, ImageSpec, Int64Value};
use orlop_image_store::Image;

/// Converts an image for `ListImages`: once for each handler whose guests have it, and once for all others.
pub fn all_listed(image: &Image) -> impl Iterator<Item = ListedImage> {
    let handlers = image.handlers.iter();
    handlers.map(|handler| listed(image, handler))
}

/// Converts an image as the guests of this handler, or all others, have it.
pub fn listed(image: &Image, handler: &str) -> ListedImage {
    ListedImage {
        id: image.id.to_string(),
        repo_tags: image.repo_tags.clone(),
        repo_digests: image.repo_digests.clone(),
        size: image.size,
        uid: image.uid().map(|value| Int64Value { value }),
        username: image.username().to_owned(),
        spec: Some(ImageSpec {
            image: image.id.to_string(),
            runtime_handler: handler.to_owned(),
            ..Default::default()
        }),
        pinned: image.pinned,
    }
}
