//! Resolving image names.

use std::sync::Arc;

use orlop_cri_api::v1::{ImageFilter, ImageSpec};
use orlop_image_store::{Image, Images};

use crate::error::{Error, Result};

/// Returns the images that a filter selects; all images without a filter.
pub async fn chosen(images: &Images, filter: Option<&ImageFilter>) -> Result<Vec<Arc<Image>>> {
    let name = filter
        .and_then(|filter| filter.image.as_ref())
        .map(|spec| spec.image.as_str());
    let found = match name.filter(|name| !name.is_empty()) {
        Some(name) => find(images, name).await?.into_iter().collect(),
        None => images.list(),
    };
    Ok(found.into_iter().map(Arc::new).collect())
}

/// Finds the image that a name refers to.
pub async fn find(images: &Images, name: &str) -> Result<Option<Image>> {
    images.find(name).await.map_err(|source| {
        Error::Image {
            doing: format!("looking for image {name:?}"),
            source,
        }
        .into()
    })
}

/// Finds the image that a request names.
pub async fn asked_for(images: &Images, field: &str, spec: Option<&ImageSpec>) -> Result<Image> {
    let name = spec.map(|spec| spec.image.as_str()).unwrap_or_default();
    if name.is_empty() {
        return Err(Error::invalid(format!("{field}.image"), "is empty").into());
    }
    stored(images, name).await
}

/// Finds the image that a name refers to; it is an error if the store does not have it.
pub async fn stored(images: &Images, name: &str) -> Result<Image> {
    find(images, name).await?.ok_or_else(|| {
        Error::NotFound {
            what: "image",
            id: name.to_owned(),
        }
        .into()
    })
}

/// Refuses an image whose layers are not on the node.
pub fn check_whole(image: &Image) -> Result<()> {
    if image.handlers.contains("") {
        return Ok(());
    }
    let guests: Vec<&str> = image.handlers.iter().map(String::as_str).collect();
    Err(Error::Precondition(format!(
        "image {} was pulled only for runtimes whose guests pull the layers themselves ({}); pull \
         it again without a runtime handler",
        image.id,
        guests.join(", ")
    ))
    .into())
}
