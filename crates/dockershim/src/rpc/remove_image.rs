//! `RemoveImage`: removes an image with all its names. It is not an error if the image is missing.

use orlop_cri_api::v1::{RemoveImageRequest, RemoveImageResponse};
use orlop_image_store::ForeignImages;

use crate::docker::DockerError;
use crate::error::{Error, Result, chain};
use crate::shim::Shim;
use crate::{policy, view};

pub(crate) async fn call(shim: &Shim, request: RemoveImageRequest) -> Result<RemoveImageResponse> {
    let name = request.image.map(|image| image.image).unwrap_or_default();
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty; specify an image").into());
    }
    let failed = || Error::engine(format!("removing image {name:?}"));
    let found = match policy::find(&shim.docker, shim.policies.as_ref(), &name).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(RemoveImageResponse {}),
        Err(error) => return Err(error),
    };
    // Removing the last name removes the image; only an image without names is removed by its id.
    let names = view::names(found.repo_tags).into_iter();
    for one in names.chain(view::names(found.repo_digests)) {
        done(shim.docker.remove_image(&one).await).map_err(failed())?;
    }
    done(shim.docker.remove_image(&found.id).await).map_err(failed())?;
    if let Some(policies) = &shim.policies {
        forget(shim, policies, &found.id).await;
    }
    Ok(RemoveImageResponse {})
}

/// Removes the signature record of an image, unless the image is back.
async fn forget(shim: &Shim, policies: &ForeignImages, id: &str) {
    let sweep = policies.sweep();
    let is_gone = shim.docker.image(id).await;
    if let Err(error) = is_gone
        && error.is_not_found()
        && let Ok(image) = id.parse()
        && let Err(error) = sweep.forget(image).await
    {
        // The record describes the image, wherever it is pulled from next.
        tracing::warn!(image = id, error = %chain(&error), "cannot remove the signature record of an image");
    }
}

/// Treats an image that is missing or being removed by another caller as removed.
fn done(outcome: Result<(), DockerError>) -> Result<(), DockerError> {
    match outcome {
        Err(error) if error.is_not_found() || is_being_removed(&error) => Ok(()),
        other => other,
    }
}

fn is_being_removed(error: &DockerError) -> bool {
    error.is_conflict() && error.to_string().contains("being deleted")
}
