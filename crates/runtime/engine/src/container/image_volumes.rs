//! Images that a container mounts as volumes.

use orlop_cri_api::v1::ContainerConfig;
use orlop_image_store::{Image, Images};

use crate::error::{Error, Result};
use crate::image;
use crate::node::Node;
use crate::node::paths::Paths;
use crate::record::container::{Container, PendingMount};
use crate::record::pod::Pod;
use crate::spec::asked_image;

/// An image that a mount in the request names.
#[derive(Debug)]
pub struct VolumeImage {
    index: usize,
    container_path: String,
    image: Image,
}

/// An image mounted as a volume.
#[derive(Debug)]
pub struct ImageVolume {
    /// Path of the volume in the container.
    pub container_path: String,
    /// The mount, and its path on the host.
    pub pending: PendingMount,
    /// Digest of the image.
    pub digest: String,
}

impl VolumeImage {
    /// Owner of the lease on this image for the given container.
    pub fn owner(&self, container: &Container) -> String {
        owner(container, self.index)
    }

    /// The image to mount.
    pub fn image(&self) -> &Image {
        &self.image
    }
}

/// Owner of the lease on an image volume; each owner has only one lease.
pub fn owner(container: &Container, index: usize) -> String {
    format!("{}/{index}", container.id)
}

/// Indices of the mounts in the request that name an image.
pub fn indices(config: &ContainerConfig) -> Vec<usize> {
    let mounts = config.mounts.iter().enumerate();
    mounts
        .filter(|(_, mount)| asked_image(mount).is_some())
        .map(|(index, _)| index)
        .collect()
}

/// Finds the images that the request mounts as volumes. Returns an error for an image that may not be used.
pub async fn asked(node: &Node, pod: &Pod, config: &ContainerConfig) -> Result<Vec<VolumeImage>> {
    let mut volumes = Vec::new();
    for (index, request) in config.mounts.iter().enumerate() {
        let Some(asked) = asked_image(request) else {
            continue;
        };
        let field = format!("config.mounts[{index}].image");
        volumes.push(VolumeImage {
            index,
            container_path: request.container_path.clone(),
            image: image::asked_for(&node.images, &field, Some(asked)).await?,
        });
    }
    for volume in &volumes {
        image::check_whole(&volume.image)?;
        let asked = config.mounts[volume.index].image.as_ref();
        image::admit(
            (&node.images, &node.config().images),
            &volume.image,
            asked,
            pod.namespace(),
        )
        .await?;
    }
    Ok(volumes)
}

/// Mounts the images detached from the mount tree, with the container's SELinux label if it has one.
pub async fn mount_all(
    node: &Node,
    container: &Container,
    images: &[VolumeImage],
    label: Option<&str>,
) -> Result<Vec<ImageVolume>> {
    let mut volumes = Vec::new();
    for VolumeImage {
        index,
        container_path,
        image,
    } in images
    {
        volumes.push(ImageVolume {
            container_path: container_path.clone(),
            pending: mount(&node.images, &node.paths, container, *index, label).await?,
            digest: image.id.to_string(),
        });
    }
    Ok(volumes)
}

/// Mounts the image that the container leases for the volume with the given index.
pub async fn mount(
    images: &Images,
    paths: &Paths,
    container: &Container,
    index: usize,
    label: Option<&str>,
) -> Result<PendingMount> {
    let owner = owner(container, index);
    let label = label.map(str::to_owned);
    let mount = images.mount_held(&owner, label).await;
    let mount = mount.map_err(|source| Error::Image {
        doing: format!("ImageVolumeMountFailed: mounting the image with the lease {owner}"),
        source,
    })?;
    let path = paths.mounts(container).join(format!("image-{index}"));
    Ok(PendingMount { mount, path })
}
