//! Admission of images: whether a pod may use an image.

use orlop_cri_api::v1::ImageSpec;
use orlop_image_store::{Config, Image, Images, Reference};

use crate::error::{Error, Result};

/// Refuses an image that pods of the namespace may not use under the requested name.
pub async fn admit(
    (images, config): (&Images, &Config),
    image: &Image,
    asked: Option<&ImageSpec>,
    namespace: &str,
) -> Result<()> {
    if config.policies.is_empty() && !image.is_encrypted {
        return Ok(());
    }
    let name = match asked {
        Some(asked) => name_asked_for(images, asked, image).await,
        None => None,
    };
    let admitted = images.admit(&image.id, name.as_ref(), namespace);
    admitted.await.map_err(|source| {
        Error::Image {
            doing: format!("using image {}", image.id),
            source,
        }
        .into()
    })
}

/// Returns the name in a request. Kubelets send the ID, and also the name in the pod's manifest.
pub async fn name_asked_for(
    images: &Images,
    asked: &ImageSpec,
    image: &Image,
) -> Option<Reference> {
    let told = &asked.user_specified_image;
    let text = if told.is_empty() { &asked.image } else { told };
    images.name_meant(text, image).await
}
