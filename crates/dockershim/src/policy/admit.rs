//! Policy check of images for new containers, by the current policy. No registry is contacted.

use orlop_cri_api::v1::{ContainerConfig, ImageSpec};
use orlop_image_store::{Digest, ForeignImage, ForeignImages};

use super::find::{find, is_id, of_engine};
use crate::docker::Docker;
use crate::error::{Error, Result};

/// Rejects an image that the policy does not allow for pods of a namespace. Replaces the requested name by the id that
/// was checked, because the name may move.
pub(crate) async fn admit(
    docker: &Docker,
    policies: &ForeignImages,
    asked: &mut ImageSpec,
    namespace: &str,
) -> Result<()> {
    if asked.image.is_empty() {
        // An empty name is rejected elsewhere.
        return Ok(());
    }
    let image = if let Some(id) = told_whole(policies, asked) {
        ForeignImage {
            id,
            names: Vec::new(),
        }
    } else {
        of_engine(&find(docker, Some(policies), &asked.image).await?)?
    };
    let id = image.id;
    let told = told(asked).to_owned();
    let admitted = policies.admit(image, &told, namespace).await;
    admitted.map_err(Error::image(format!("using image {id}")))?;
    if asked.user_specified_image.is_empty() && !is_id(&told, &id) {
        asked.user_specified_image = told;
    }
    asked.image = id.to_string();
    Ok(())
}

/// Rejects images that a container mounts if the policy does not allow them, and replaces their names by ids.
pub(crate) async fn admit_mounts(
    docker: &Docker,
    policies: &ForeignImages,
    config: &mut ContainerConfig,
    namespace: &str,
) -> Result<()> {
    let images = config.mounts.iter_mut().filter_map(|it| it.image.as_mut());
    for asked in images {
        admit(docker, policies, asked, namespace).await?;
    }
    Ok(())
}

/// Returns the name in a request. Kubelets request the id and add the name from the pod's manifest.
fn told(asked: &ImageSpec) -> &str {
    let told = &asked.user_specified_image;
    if told.is_empty() { &asked.image } else { told }
}

/// Returns an image id without asking the engine: kubelets have it from the pull and also send the name.
fn told_whole(policies: &ForeignImages, asked: &ImageSpec) -> Option<Digest> {
    let id = asked.image.parse().ok()?;
    policies.is_full_name(told(asked), &id).then_some(id)
}
