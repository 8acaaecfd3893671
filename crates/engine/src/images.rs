//! Images in CRI's words.

use std::sync::Arc;

use orlop_cri::v1::{Image as ListedImage, ImageFilter, ImageSpec, Int64Value};
use orlop_image::{Image, Reference};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// The images that a filter chooses; all without one.
pub fn chosen(engine: &Engine, filter: Option<&ImageFilter>) -> Result<Vec<Arc<Image>>> {
    let name = filter
        .and_then(|filter| filter.image.as_ref())
        .map(|spec| spec.image.as_str());
    let found = match name.filter(|name| !name.is_empty()) {
        Some(name) => find(engine, name)?.into_iter().collect(),
        None => engine.images.list(),
    };
    Ok(found.into_iter().map(Arc::new).collect())
}

/// The image that a name means.
pub fn find(engine: &Engine, name: &str) -> Result<Option<Image>> {
    engine.images.find(name).map_err(|source| {
        Error::Image {
            doing: format!("looking for image {name:?}"),
            source,
        }
        .into()
    })
}

/// Refuses an image that the pods of the namespace may not have, by the name that was asked for.
pub async fn admit(
    engine: &Engine,
    image: &Image,
    asked: Option<&ImageSpec>,
    namespace: &str,
) -> Result<()> {
    if engine.config.images.policies.is_empty() {
        return Ok(());
    }
    let name = asked.and_then(|asked| name_asked_for(asked, image));
    let admitted = engine.images.admit(&image.id, name.as_ref(), namespace);
    admitted.await.map_err(|source| {
        Error::Image {
            doing: format!("using image {}", image.id),
            source,
        }
        .into()
    })
}

/// The name in a request. Kubelets ask by the id, and tell what the pod's manifest says beside it.
/// That may be an id, too, and ids look like names: `sha256:0123…` would be one of docker.io.
pub fn name_asked_for(asked: &ImageSpec, image: &Image) -> Option<Reference> {
    let told = &asked.user_specified_image;
    let text = if told.is_empty() { &asked.image } else { told };
    let name: Reference = text.parse().ok()?;
    let full = name.to_string();
    let mut names = image.repo_tags.iter().chain(&image.repo_digests);
    if names.any(|name| *name == full) {
        return Some(name);
    }
    let algorithms = ["sha256:", "sha512:"];
    let mut stripped = algorithms.iter().filter_map(|it| text.strip_prefix(it));
    let digits = stripped.next().unwrap_or(text);
    (!image.id.hex().starts_with(digits)).then_some(name)
}

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
