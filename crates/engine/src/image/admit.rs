//! Whether a pod may have an image.

use orlop_cri::v1::ImageSpec;
use orlop_image::{Config, Image, Images, Reference};

use crate::error::{Error, Result};

/// Refuses an image that the pods of the namespace may not have, by the name that was asked for.
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

/// The name in a request. Kubelets ask by the id, and tell what the pod's manifest says beside it.
/// That may be an id, too, and ids look like names: `sha256:0123…` would be one of docker.io. A short
/// name is the full one that the image has of those that it stands for, else the first of them.
pub async fn name_asked_for(
    images: &Images,
    asked: &ImageSpec,
    image: &Image,
) -> Option<Reference> {
    let told = &asked.user_specified_image;
    let text = if told.is_empty() { &asked.image } else { told };
    let parsed: Reference = text.parse().ok()?;
    let stands_for = images.names_here(text).await.unwrap_or_default();
    let is_name = |name: &&Reference| {
        let full = name.to_string();
        let mut names = image.repo_tags.iter().chain(&image.repo_digests);
        names.any(|name| *name == full)
    };
    if let Some(name) = stands_for.iter().find(is_name) {
        return Some(name.clone());
    }
    // What can't be told is judged as if nothing were said of short names.
    let name = stands_for.into_iter().next().unwrap_or(parsed);
    let algorithms = ["sha256:", "sha512:"];
    let mut stripped = algorithms.iter().filter_map(|it| text.strip_prefix(it));
    let digits = stripped.next().unwrap_or(text);
    (!image.id.hex().starts_with(digits)).then_some(name)
}
