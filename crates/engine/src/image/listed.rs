//! Images in CRI's words.

use orlop_cri::v1::{Image as ListedImage, ImageSpec, Int64Value};
use orlop_image::Image;

/// An image as `ListImages` and `ImageStatus` show it.
pub fn listed(image: &Image) -> ListedImage {
    ListedImage {
        id: image.id.to_string(),
        repo_tags: image.repo_tags.clone(),
        repo_digests: image.repo_digests.clone(),
        size: image.size,
        uid: image.uid().map(|value| Int64Value { value }),
        username: image.username().to_owned(),
        spec: Some(ImageSpec {
            image: image.id.to_string(),
            ..Default::default()
        }),
        pinned: image.pinned,
    }
}
