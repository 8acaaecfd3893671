//! `RemoveImage`: removes an image with all its names. One that is not there is a success.

use orlop_cri::v1::{RemoveImageRequest, RemoveImageResponse};

use crate::docker::DockerError;
use crate::error::{Error, Result, chain};
use crate::shim::Shim;
use crate::view;

/// Answers the call.
pub(crate) async fn call(shim: &Shim, request: RemoveImageRequest) -> Result<RemoveImageResponse> {
    let name = request.image.map(|image| image.image).unwrap_or_default();
    if name.is_empty() {
        return Err(Error::invalid("image.image", "is empty; name an image").into());
    }
    let failed = || Error::engine(format!("removing image {name:?}"));
    let found = match shim.docker.image(&name).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(RemoveImageResponse {}),
        Err(error) => return Err(failed()(error).into()),
    };
    // With its last name goes the image; only one without a name is removed by its id.
    let names = view::names(found.repo_tags).into_iter();
    for one in names.chain(view::names(found.repo_digests)) {
        done(shim.docker.remove_image(&one).await).map_err(failed())?;
    }
    done(shim.docker.remove_image(&found.id).await).map_err(failed())?;
    if let Some(policies) = &shim.policies
        && let Ok(id) = found.id.parse()
        && let Err(error) = policies.forget(id).await
    {
        // It is about an image, wherever that comes from next.
        tracing::warn!(image = found.id, error = %chain(&error), "what is known of its signatures stays");
    }
    Ok(RemoveImageResponse {})
}

/// What is not there any more is removed; what somebody else removes now will be.
fn done(outcome: Result<(), DockerError>) -> Result<(), DockerError> {
    match outcome {
        Err(error) if error.is_not_found() || is_being_removed(&error) => Ok(()),
        other => other,
    }
}

fn is_being_removed(error: &DockerError) -> bool {
    error.is_conflict() && error.to_string().contains("being deleted")
}
