//! Checkpoints as a container's image: the path of an archive, or an image made from an archive (with
//! `buildah` from scratch, with an annotation).
//!
//! A checkpoint contains processes with whatever rights they had. CRI clients may do anything on the node,
//! so a path is as trustworthy as its caller. An image comes from the author of the pod's manifest, so the
//! node's configuration must allow restoring from images.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_cri_api::v1::ImageSpec;
use orlop_image_store::Images;
use orlop_image_store::{Image, PolicyFor, PullRequest, Wait};
use orlop_oci_types as oci;
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, open};

use super::{CONFIG_DUMP, ConfigDump, FILES, IMAGES, SPEC_DUMP, archive, open_beneath};
use crate::error::{Error, Result};
use crate::node::Node;
use crate::reach::{self, Named};
use crate::{blocking, image};

/// Annotations of checkpoint images: CRI-O's, and the one that `checkpointctl` writes.
const ANNOTATIONS: [&str; 2] = [
    "io.kubernetes.cri-o.annotations.checkpoint.name",
    "org.criu.checkpoint.container.name",
];

/// Size limit of JSON files in a checkpoint.
const MAX_JSON: u64 = 4 << 20;

/// A checkpoint that a container is restored from.
#[derive(Debug)]
pub enum Source {
    /// An archive.
    Archive(PathBuf),
    /// An image with the files of an archive.
    Image(Box<Image>),
}

/// The source of a container.
#[derive(Debug)]
pub enum Asked {
    /// An image, the usual case.
    Image(Box<Image>),
    /// A checkpoint.
    Checkpoint(Source),
}

/// Resolves a container's image, if pods of the namespace may use it.
pub async fn of(node: &Arc<Node>, asked: Option<&ImageSpec>, namespace: &str) -> Result<Asked> {
    let name = asked.map(|asked| asked.image.as_str()).unwrap_or_default();
    if name.starts_with('/') {
        check_archives_are_allowed(node)?;
        return Ok(Asked::Checkpoint(Source::Archive(PathBuf::from(name))));
    }
    let image = image::asked_for(&node.images, "config.image", asked).await?;
    image::admit(
        (&node.images, &node.config().images),
        &image,
        asked,
        namespace,
    )
    .await?;
    // An image made from an archive has no command; images with one are not checked further.
    let runs = !image.config.entrypoint.is_empty() || !image.config.cmd.is_empty();
    if runs || !is_checkpoint(&node.images, &image).await? {
        return Ok(Asked::Image(Box::new(image)));
    }
    if !node.config().containers.restore_images {
        let problem = format!(
            "image {name:?} is a checkpoint, which can contain processes with any privileges; \
             this node does not restore checkpoints from images; to allow it, set \
             containers.restore_images"
        );
        return Err(Error::Precondition(problem).into());
    }
    Ok(Asked::Checkpoint(Source::Image(Box::new(image))))
}

/// Refuses archives of clients if the configuration forbids them.
pub fn check_archives_are_allowed(node: &Node) -> Result<()> {
    if node.config().containers.restore_archives {
        return Ok(());
    }
    let problem = "this node does not restore checkpoints from archives; to allow it, set \
         containers.restore_archives";
    Err(Error::Precondition(problem.to_owned()).into())
}

async fn is_checkpoint(images: &Images, image: &Image) -> Result<bool> {
    let manifest = images.raw_manifest(&image.id).await;
    let manifest = manifest.map_err(|source| {
        let doing = format!("reading the manifest of image {}", image.id);
        Error::Image { doing, source }
    })?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap_or_default();
    let annotations = &manifest["annotations"];
    Ok(ANNOTATIONS.iter().any(|key| annotations[*key].is_string()))
}

impl Source {
    /// Puts the files of the checkpoint into the new directory `dir`.
    pub async fn unpack(&self, node: &Arc<Node>, dir: &Path) -> Result<()> {
        let dir = dir.to_owned();
        let limits = node.config().images.limits.clone();
        match self {
            Self::Archive(path) => {
                let path = path.clone();
                let named = vec![Named::new("config.image", &path)];
                let read = move || archive::read(&path, &dir, &limits);
                reach::touching(&node.config(), named, read).await
            }
            Self::Image(image) => {
                let layers = node.images.layers_of(image).await.map_err(|source| {
                    let doing = format!("finding the layers of image {}", image.id);
                    Error::Image { doing, source }
                })?;
                let id = image.id;
                blocking(move || {
                    archive::make_images_dir(&dir)?;
                    let doing = format!("copying the checkpoint of image {id}");
                    copy_layers(&layers, &dir)
                        .map_err(Error::io(doing))
                        .map_err(Into::into)
                })
                .await
            }
        }
    }
}

/// Copies the files of a checkpoint out of layers, of which the first is on top.
fn copy_layers(layers: &[PathBuf], dir: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    for layer in layers {
        let root = open(layer, flags, Mode::empty())?;
        for name in FILES {
            copy_file(&root, Path::new(name), dir)?;
        }
        let Ok(images) = open_beneath(&root, Path::new(IMAGES), OFlags::DIRECTORY) else {
            continue;
        };
        for entry in Dir::read_from(&images)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                copy_file(&root, &Path::new(IMAGES).join(&*name), dir)?;
            }
        }
    }
    Ok(())
}

/// Copies a regular file unless it exists already.
fn copy_file(root: &OwnedFd, name: &Path, dir: &Path) -> io::Result<()> {
    let Ok(file) = open_beneath(root, name, OFlags::NONBLOCK) else {
        return Ok(());
    };
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    match archive::new_file(&dir.join(name)) {
        Ok(mut to) => io::copy(&mut File::from(file), &mut to).map(drop),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// The description of a container in an unpacked checkpoint.
#[derive(Debug)]
pub struct Facts {
    /// The container's identity and image.
    pub config: ConfigDump,
    /// The container's first process.
    pub process: Option<oci::Process>,
}

impl Facts {
    /// Reads the description. Blocks.
    pub fn read(dir: &Path) -> Result<Self> {
        let config = json(dir, CONFIG_DUMP)?;
        let spec: oci::Spec = json(dir, SPEC_DUMP)?;
        Ok(Self {
            config,
            process: spec.process,
        })
    }
}

fn json<T: serde::de::DeserializeOwned>(dir: &Path, name: &str) -> Result<T> {
    orlop_fs::read_file(dir.join(name), MAX_JSON)
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()))
        .map_err(|error| {
            Error::Precondition(format!("cannot read {name} of the checkpoint: {error}")).into()
        })
}

/// Returns the image that the container was made from. A missing one is pulled if pods of the namespace may
/// use it.
pub async fn base_image(node: &Arc<Node>, facts: &ConfigDump, namespace: &str) -> Result<Image> {
    let names = [
        &facts.rootfs_image_ref,
        &facts.rootfs_image_name,
        &facts.rootfs_image,
    ];
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        // If a name resolves to nothing on this node, another may.
        if let Ok(Some(image)) = image::find(&node.images, name).await {
            return Ok(image);
        }
    }
    // A name with a digest is the most exact; a bare identifier cannot be pulled.
    let fetched = names.into_iter().find(|name| name.contains('@'));
    let fetched = fetched.or_else(|| names.into_iter().find(|name| name.contains(['/', ':'])));
    let Some(reference) = fetched.cloned() else {
        let problem = format!(
            "the image of the checkpoint, {:?}, is not on this node; pull it first",
            facts.rootfs_image_name
        );
        return Err(Error::Precondition(problem).into());
    };
    let pull = PullRequest {
        reference: reference.clone(),
        auth: None,
        policy: PolicyFor::Namespace(namespace.to_owned()),
        handler: String::new(),
        wait: Wait::default(),
    };
    let pulled = node.images.pull(pull).await;
    pulled.map_err(|source| {
        let doing = format!("pulling {reference:?}, the image of the checkpoint");
        Error::Image { doing, source }.into()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::checkpoint::CONTAINER_LOG;

    /// CVE-2026-53489: an image's links in place of a checkpoint's files may lead to files of the node.
    #[test]
    fn links_of_an_image_bring_nothing_of_the_node_into_a_checkpoint() {
        let place = tempfile::tempdir().unwrap();
        let [layer, dir, node] = ["layer", "dir", "node"].map(|name| place.path().join(name));
        archive::make_images_dir(&layer).unwrap();
        archive::make_images_dir(&dir).unwrap();
        fs::write(&node, "of the node").unwrap();
        symlink(&node, layer.join(CONTAINER_LOG)).unwrap();
        symlink("../node", layer.join(CONFIG_DUMP)).unwrap();
        symlink(&node, layer.join(IMAGES).join("pages-1.img")).unwrap();
        fs::write(layer.join(SPEC_DUMP), "{}").unwrap();
        let other = place.path().join("other");
        fs::create_dir(&other).unwrap();
        symlink(place.path(), other.join(IMAGES)).unwrap();
        copy_layers(&[layer, other], &dir).unwrap();
        assert_eq!(fs::read(dir.join(SPEC_DUMP)).unwrap(), b"{}");
        let names = |dir: &Path| -> Vec<_> {
            let entries = fs::read_dir(dir).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(names(&dir.join(IMAGES)), [""; 0]);
        assert_eq!(names(&dir).len(), 2, "{:?}", names(&dir));
    }
}
