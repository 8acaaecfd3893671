//! Lookup of the engine's images by the names in requests.

use orlop_image_store::{Digest, ForeignImage, ForeignImages};

use crate::docker::types::Image;
use crate::docker::{Docker, DockerError};
use crate::error::{Error, Result};
use crate::view;

/// Finds an image by name or id. If a file defines short names, only that meaning applies; the engine would resolve
/// them to Docker Hub.
pub(crate) async fn find(
    docker: &Docker,
    policies: Option<&ForeignImages>,
    text: &str,
) -> Result<Image> {
    let failed = || Error::engine(format!("looking for image {text:?}"));
    let stands_for = match policies {
        Some(policies) => {
            let names = policies.stands_for(text).await;
            let doing = format!("resolving the short name {text:?}");
            names.map_err(Error::image(doing))?
        }
        None => None,
    };
    let Some(names) = stands_for else {
        return Ok(docker.image(text).await.map_err(failed())?);
    };
    for name in names {
        match docker.image(&name.to_string()).await {
            Err(error) if error.is_not_found() => {}
            answer => return Ok(answer.map_err(failed())?),
        }
    }
    // It may be a prefix of an id.
    let found = docker.image(text).await.map_err(failed())?;
    if id_of(&found).is_ok_and(|id| is_id(text, &id)) {
        return Ok(found);
    }
    let message =
        "the engine has no image with any of the full names of this short name".to_owned();
    let status = 404;
    Err(failed()(DockerError::Refused { status, message }).into())
}

/// Converts the engine's description of an image.
pub(crate) fn of_engine(found: &Image) -> Result<ForeignImage> {
    let names = view::names(found.repo_tags.clone()).into_iter();
    Ok(ForeignImage {
        id: id_of(found)?,
        names: names
            .chain(view::names(found.repo_digests.clone()))
            .collect(),
    })
}

fn id_of(found: &Image) -> Result<Digest> {
    let id = found.id.parse();
    Ok(id.map_err(|error| {
        Error::Internal(format!("the engine returned an invalid image ID: {error}"))
    })?)
}

/// Whether a text is an id or a prefix of one.
pub(super) fn is_id(text: &str, id: &Digest) -> bool {
    let full = id.to_string();
    full.starts_with(text) || id.hex().starts_with(text)
}
