//! Images that containers want to use: whether they may, by the policy as it is now. No registry is asked.

use orlop_cri_api::v1::{ContainerConfig, ImageSpec};
use orlop_image_store::{Digest, ForeignImage, ForeignImages};

use super::find::{find, is_id, of_engine};
use crate::docker::Docker;
use crate::error::{Error, Result};

/// Refuses an image that the pods of a namespace may not have. What is asked for becomes the id of the one that was
/// judged: a name may mean another a moment later.
pub(crate) async fn admit(
    docker: &Docker,
    policies: &ForeignImages,
    asked: &mut ImageSpec,
    namespace: &str,
) -> Result<()> {
    if asked.image.is_empty() {
        // That is refused elsewhere.
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

/// The same for the images that a container mounts.
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

/// The name in a request. Kubelets ask by the id, and tell what the pod's manifest says beside it.
fn told(asked: &ImageSpec) -> &str {
    let told = &asked.user_specified_image;
    if told.is_empty() { &asked.image } else { told }
}

/// The id of an image that the engine need not be asked about: kubelets have it from the pull, and tell the name.
fn told_whole(policies: &ForeignImages, asked: &ImageSpec) -> Option<Digest> {
    let id = asked.image.parse().ok()?;
    policies.is_full_name(told(asked), &id).then_some(id)
}
