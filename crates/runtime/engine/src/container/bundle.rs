//! The OCI bundle of a container: its mounts, its specification, and the `process.json` of exec commands.

use std::fs::Permissions;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_image_store::rootfs::OverlayMount;
use orlop_image_store::{Image, Images};
use orlop_launch::Keeper;
use orlop_oci_types as oci;
use orlop_pool::Place;

use crate::checkpoint::go_on;
use crate::config::Config;
use crate::container::image_volumes::{self, ImageVolume, VolumeImage};
use crate::container::plan::Plan;
use crate::error::{Error, Result};
use crate::image::{held_layers, may_be_lazy};
use crate::node::Node;
use crate::node::metrics::Metrics;
use crate::node::paths::Paths;
use crate::reach::{self, Named};
use crate::record::container::{Container, Effective, PendingMount};
use crate::record::directories::make_private_dir;
use crate::record::names::ContainerName;
use crate::record::pod::Pod;
use crate::record::pod_files::PodFiles;
use crate::record::spec_file;
use crate::timeline::Trace;
use crate::{blocking, spec};

/// Time that a client has to repeat a request that timed out, before the container counts as abandoned.
const CLIENT_MAY_COME_AGAIN: Duration = Duration::from_mins(1);

/// Copies of image content to the volumes that the image declares, which can be of any size.
static FILLING: Place = Place::new("copying image content to volumes", 32, 4, 4096);

/// Reads of lazily pulled layers, for example to look up users, which wait until the registry has sent the content.
static READING: Place = Place::new("reading content of lazily pulled images", 64, 16, 4096);

/// Whether plugins adjust a specification before it is written to the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wishes {
    /// Nothing adjusts it; [`build`] writes it.
    None,
    /// NRI plugins adjust it; the caller that runs the plugins writes it.
    Plugins,
}

/// Leases the images, prepares the mounts and builds the specification. Writes the specification unless plugins adjust
/// it first ([`Wishes`]).
pub async fn build(
    node: &Arc<Node>,
    container: &Arc<Container>,
    plan: Plan,
    wishes: Wishes,
    trace: &Trace,
) -> Result<(oci::Spec, Effective)> {
    let name = container.metadata().name;
    let leases = hold_images(&node.images, container, &plan);
    trace.step("lease", &name, leases).await?;
    let volumes = if plan.volumes.is_empty() {
        Vec::new()
    } else {
        let mounts =
            image_volumes::mount_all(node, container, &plan.volumes, plan.asked.file_label());
        trace.step("volumes", &name, mounts).await?
    };
    let lower = held_layers(&node.images, container.id.as_str()).await?;
    let build = {
        let node_too = Arc::clone(node);
        let (named, container) = (named_paths(container), Arc::clone(container));
        let fills = !plan.image.config.volumes.is_empty() || container.goes_on.is_some();
        let place = match node.images.reads_wait_for(container.id.as_str()) {
            Some(registry) => Some((&READING, registry)),
            None => fills.then(|| (&FILLING, plan.image.id.to_string())),
        };
        let build = move || {
            let made = build_blocking(&node_too, &container, plan, lower, volumes)?;
            if wishes == Wishes::None {
                // Building and writing happen on the same blocking thread.
                spec_file::write(&container.bundle, &made.0)?;
                container.specified(&made.0);
            }
            Ok(made)
        };
        match place {
            Some(place) => reach::touching_in(place, &node.config(), named, build),
            None => reach::touching(&node.config(), named, build),
        }
    };
    trace.step("rootfs", &name, build).await
}

/// Waits until all content of the container's images is on disk, unless the pod allows lazy images. Leases the images
/// first, so that garbage collection does not remove them.
pub async fn fetch_images(
    node: &Node,
    container: &Container,
    plan: &Plan,
    trace: &Trace,
) -> Result<()> {
    if may_be_lazy("config", &container.pod.config)? {
        return Ok(());
    }
    let fetching = async {
        hold_images(&node.images, container, plan).await?;
        let volumes = plan.volumes.iter().map(VolumeImage::image);
        for image in std::iter::once(&plan.image).chain(volumes) {
            fetch_all(&node.images, image).await?;
        }
        Ok(())
    };
    let name = container.metadata().name;
    trace.step("image", &name, fetching).await
}

async fn fetch_all(images: &Images, image: &Image) -> Result<()> {
    let fetched = images.fetch_rest(&image.id).await;
    fetched.map_err(|source| {
        let name = image.repo_tags.iter().chain(&image.repo_digests).next();
        let id = image.id.to_string();
        let doing = format!(
            "fetching image {} completely, as the pod requires before its containers are created",
            name.unwrap_or(&id)
        );
        Error::Image { doing, source }.into()
    })
}

/// Host paths in the request that building the specification accesses.
fn named_paths(container: &Container) -> Vec<Named> {
    let config = &container.config;
    let mounts = config.mounts.iter().enumerate();
    let mounts = mounts
        .filter(|(_, mount)| spec::asked_image(mount).is_none())
        .map(|(index, mount)| {
            (
                format!("config.mounts[{index}].host_path"),
                &mount.host_path,
            )
        });
    let devices = config.devices.iter().enumerate();
    let devices = devices.map(|(index, device)| {
        (
            format!("config.devices[{index}].host_path"),
            &device.host_path,
        )
    });
    let seccomp = container.security().seccomp.as_ref();
    let profile = seccomp.map(|profile| {
        let field = "config.linux.security_context.seccomp.localhost_ref".to_owned();
        (field, &profile.localhost_ref)
    });
    mounts
        .chain(devices)
        .chain(profile)
        .map(|(field, path)| (field, path.strip_prefix("localhost/").unwrap_or(path)))
        .filter(|(_, path)| path.starts_with('/') && !path.contains('\0'))
        .map(|(field, path)| Named::new(field, path))
        .collect()
}

async fn hold_images(images: &Images, container: &Container, plan: &Plan) -> Result<()> {
    lease(images, container.id.as_str(), &plan.image).await?;
    for volume in &plan.volumes {
        lease(images, &volume.owner(container), volume.image()).await?;
    }
    Ok(())
}

fn build_blocking(
    node: &Node,
    container: &Arc<Container>,
    plan: Plan,
    lower: Vec<PathBuf>,
    volumes: Vec<ImageVolume>,
) -> Result<(oci::Spec, Effective)> {
    for directory in [container.work(), container.volumes()] {
        make_private_dir(&directory)?;
    }
    make_upper(container, &lower)?;
    if container.goes_on.is_some() {
        go_on::unpack_changes(&node.config(), container)?;
    }
    let label = plan.asked.file_label().map(str::to_owned);
    let rootfs = root_mount(&node.paths, container, lower, label)?;
    let mut made = specification(node, container, plan, &rootfs, &volumes)?;
    if container.goes_on.is_some() {
        go_on::keep_cgroup(container, &mut made.0)?;
    }
    let volumes = volumes.into_iter().map(|volume| volume.pending);
    container.set_pending_mounts(std::iter::once(rootfs).chain(volumes).collect());
    Ok(made)
}

/// Lets the keeper attach the container's mounts at their paths.
pub async fn place_mounts(
    node: &Arc<Node>,
    container: &Arc<Container>,
    keeper: &Keeper,
) -> Result<()> {
    let pending = match container.take_pending_mounts() {
        Some(pending) => pending,
        None => mounts_anew(node, container).await?,
    };
    let pending = blocking(move || {
        for mount in &pending {
            make_private_dir(&mount.path)?;
        }
        Ok(pending)
    })
    .await?;
    for PendingMount { mount, path } in pending {
        let id = container.id.as_str();
        keeper
            .place_mount(id, mount, &path)
            .await
            .map_err(|source| Error::Launch {
                doing: format!("mounting the files of container {id}"),
                source,
            })?;
    }
    Ok(())
}

/// Writes the `process.json` of an exec command: the container's own process with other arguments.
pub fn write_process(
    config: &Config,
    container: &Container,
    dir: &Path,
    args: &[String],
    tty: bool,
) -> Result<()> {
    let affinity = config.containers.policy.exec_cpu_affinity.as_ref();
    let resources = container
        .now()
        .effective
        .resources
        .linux
        .unwrap_or_default();
    let affinity = affinity.map(|affinity| affinity.among(&resources.cpuset_cpus));
    let process =
        spec::exec_process(&container.process()?, args, tty, affinity).map_err(Error::Spec)?;
    make_private_dir(dir)?;
    spec_file::write_json(&dir.join("process.json"), &process)
}

/// Prepares the mounts again after a daemon restart between creation and start, which loses the detached mounts.
async fn mounts_anew(node: &Arc<Node>, container: &Arc<Container>) -> Result<Vec<PendingMount>> {
    let bundle = container.bundle.clone();
    let spec = blocking(move || spec_file::read(&bundle)).await?;
    let label = spec.linux.map(|linux| linux.mount_label);
    let label = label.filter(|label| !label.is_empty());
    let mut pending = Vec::new();
    for index in image_volumes::indices(&container.config) {
        let (images, paths) = (&node.images, &node.paths);
        let mount = image_volumes::mount(images, paths, container, index, label.as_deref());
        pending.push(mount.await?);
    }
    let lower = held_layers(&node.images, container.id.as_str()).await?;
    let (node, container) = (Arc::clone(node), Arc::clone(container));
    let root = blocking(move || root_mount(&node.paths, &container, lower, label)).await?;
    pending.insert(0, root);
    Ok(pending)
}

/// Whether the owner of a lease is this container or one of its image volumes.
fn is_owner(container: &Container, owner: &str) -> bool {
    owner.split('/').next() == Some(container.id.as_str())
}

/// Mounts the root filesystem with the container's SELinux label, if it has one. Image files are shared by pods and
/// have no label of their own.
fn root_mount(
    paths: &Paths,
    container: &Container,
    lower: Vec<PathBuf>,
    label: Option<String>,
) -> Result<PendingMount> {
    let mut overlay = OverlayMount::new(lower, container.upper(), container.work());
    overlay.label = label;
    if id_of_root(&container.pod)?.is_some() {
        let path = container.pod.user_ns();
        let namespace =
            std::fs::File::open(&path).map_err(Error::io(format!("opening {}", path.display())))?;
        overlay.idmap = Some(Arc::new(namespace.into()));
    }
    let mount = overlay.mount().map_err(|source| Error::Image {
        doing: format!("mounting the root filesystem of container {}", container.id),
        source,
    })?;
    Ok(PendingMount {
        mount,
        path: paths.mounts(container).join("rootfs"),
    })
}

/// Creates the writable layer. Its root directory gets the mode and owner of the image's root directory, shifted into
/// the pod's user namespace if it has one.
fn make_upper(container: &Container, lower: &[PathBuf]) -> Result<()> {
    let upper = container.upper();
    let failed = || Error::io(format!("creating {}", upper.display()));
    make_private_dir(&upper)?;
    let (mut mode, mut owner) = (0o755, (0, 0));
    if let Some(top) = lower.first() {
        let look = std::fs::metadata(top).map_err(failed())?;
        mode = look.mode() & 0o7777;
        owner = (look.uid(), look.gid());
    }
    if let Some(shift) = id_of_root(&container.pod)? {
        owner = shifted(owner, shift)?;
    }
    std::os::unix::fs::chown(&upper, Some(owner.0), Some(owner.1)).map_err(failed())?;
    std::fs::set_permissions(&upper, Permissions::from_mode(mode))
        .map_err(failed())
        .map_err(Into::into)
}

/// Translates a file's owner to host IDs, for a user namespace whose root has the host IDs `root`.
fn shifted(owner: (u32, u32), root: (u32, u32)) -> Result<(u32, u32)> {
    let uid = owner.0.checked_add(root.0);
    let gid = owner.1.checked_add(root.1);
    // `u32::MAX` means "no ID".
    let ids = uid
        .zip(gid)
        .filter(|(uid, gid)| (*uid).max(*gid) < u32::MAX);
    ids.ok_or_else(|| {
        let ((uid, gid), (root, group)) = (owner, root);
        Error::Precondition(format!(
            "the root directory of the image belongs to {uid}:{gid}, which is outside of the user \
             namespace that starts at {root}:{group}"
        ))
        .into()
    })
}

/// Host UID and GID of root in the pod's user namespace.
pub fn id_of_root(pod: &Pod) -> Result<Option<(u32, u32)>> {
    let ranges = spec::IdRanges::parse(Some(pod.namespaces())).map_err(Error::Spec)?;
    let first = |maps: &[oci::IdMapping]| maps.first().map_or(0, |map| map.host_id);
    Ok(ranges.map(|ranges| (first(&ranges.uids), first(&ranges.gids))))
}

async fn lease(images: &Images, owner: &str, image: &Image) -> Result<()> {
    images.lease(owner, image).await.map_err(|source| {
        let doing = format!("leasing image {} for container {owner}", image.id);
        Error::Image { doing, source }.into()
    })
}

/// Releases the leases on the container's images.
pub async fn release(images: &Images, metrics: &Metrics, container: &Container) -> Result<()> {
    for lease in images
        .leases()
        .into_iter()
        .filter(|lease| is_owner(container, &lease.owner))
    {
        let freed = images.release(&lease.owner).await;
        let freed = freed.map_err(|source| Error::Image {
            doing: format!("releasing the images of container {}", container.id),
            source,
        })?;
        metrics.freed(&freed);
    }
    Ok(())
}

/// Whether a container is no longer wanted: its pod is to stop, or its client has disconnected and has not repeated the
/// request in time.
fn abandoned(node: &Node, pod: &Pod, name: Option<&ContainerName>) -> bool {
    let left = name.is_some_and(|name| node.creations.abandoned(name) > CLIENT_MAY_COME_AGAIN);
    left || pod.is_to_stop()
}

fn specification(
    node: &Node,
    container: &Arc<Container>,
    plan: Plan,
    rootfs: &PendingMount,
    volumes: &[ImageVolume],
) -> Result<(oci::Spec, Effective)> {
    let pod = &container.pod;
    let files = PodFiles::of(pod);
    let shm = node.paths.shm_for(pod);
    let cgroup = node.cgroups.parent(pod)?;
    let rootfs_path = rootfs.path.to_string_lossy();
    let image_mounts: Vec<_> = volumes
        .iter()
        .map(|volume| spec::ImageMount {
            container_path: &volume.container_path,
            path: &volume.pending.path,
            dir: volume.pending.mount.as_fd(),
            digest: &volume.digest,
        })
        .collect();
    let volumes_dir = container.volumes();
    let name = ContainerName::of(&pod.id, &container.config).ok();
    let image = (container.image.name.as_str(), &plan.image);
    let input = spec::SpecInput {
        known: plan.pod.known(node, pod, &container.config, image),
        container_id: container.id.as_str(),
        pod: spec::PodFacts {
            id: pod.id.as_str(),
            files: spec::PodFiles {
                hostname: Some(&files.hostname),
                hosts: Some(&files.hosts),
                resolv_conf: Some(&files.resolv),
                shm: Some(&shm),
            },
            cgroup: &cgroup,
        },
        rootfs: spec::RootfsFacts {
            path: &rootfs_path,
            dir: rootfs.mount.as_fd(),
        },
        image_mounts: &image_mounts,
        volumes_dir: &volumes_dir,
        abandoned: &|| abandoned(node, pod, name.as_ref()),
    };
    let (spec, effective) = spec::build(&input, *plan.asked).map_err(Error::Spec)?;
    for warning in &effective.warnings {
        tracing::warn!(container = %container.id, "{warning}");
    }
    let effective = Effective {
        user: effective.user,
        mounts: effective.mounts,
        resources: effective.resources,
        stop_signal: effective.stop_signal.to_cri().into(),
        cgroups_path: None,
    };
    Ok((spec, effective))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_beyond_all_ids_is_an_error_and_not_another_owner() {
        let root = (65_536, 131_072);
        assert_eq!(shifted((3, 4), root).unwrap(), (65_539, 131_076));
        for owner in [
            (u32::MAX, 0),
            (0, u32::MAX - 131_072),
            (u32::MAX - 65_536, 0),
        ] {
            let error = shifted(owner, root).unwrap_err().to_string();
            assert!(error.contains("outside of the user namespace"), "{error}");
        }
    }
}
