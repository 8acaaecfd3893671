//! The mounts of a container.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use orlop_cri_api::v1;
use orlop_kubelet_rules::cri_config::expand;
use orlop_kubelet_rules::pod::{Container, VolumeMount};

use super::dirs::make_dir;
use super::sub_path;
use super::{Place, Places, PodDirs, VolumeError};

/// The input for a container's mounts.
pub(crate) struct MountInput<'a> {
    pub(crate) dirs: &'a PodDirs,
    pub(crate) places: &'a Places,
    /// The container's variables, for `subPathExpr`.
    pub(crate) variables: &'a BTreeMap<String, String>,
    /// The ids of image volumes, or why they are not available.
    pub(crate) images: &'a BTreeMap<String, Result<v1::ImageSpec, String>>,
    /// The pod's hosts file, if it has one.
    pub(crate) hosts: Option<PathBuf>,
    /// The file for the container's termination message.
    pub(crate) termination_log: Option<PathBuf>,
    /// Whether the runtime supports recursive read-only mounts.
    pub(crate) recursive_read_only: bool,
}

/// Resolves a container's mounts. Blocks.
pub(crate) fn container_mounts(
    container: &Container,
    input: &MountInput<'_>,
) -> Result<Vec<v1::Mount>, VolumeError> {
    input.dirs.drop_sub_paths(&container.name);
    let mut mounts = Vec::new();
    let mut own_hosts = false;
    for (index, wanted) in container.volume_mounts.iter().enumerate() {
        let mount = one(container, index, wanted, input)?;
        own_hosts |= mount.container_path == "/etc/hosts";
        mounts.push(mount);
    }
    if let Some(hosts) = input.hosts.as_ref().filter(|_| !own_hosts) {
        mounts.push(v1::Mount {
            container_path: "/etc/hosts".to_owned(),
            host_path: hosts.display().to_string(),
            readonly: container.security_context.read_only_root_filesystem == Some(true),
            ..v1::Mount::default()
        });
    }
    if let Some(log) = &input.termination_log {
        mounts.push(v1::Mount {
            container_path: container.termination_message_path.clone(),
            host_path: log.display().to_string(),
            ..v1::Mount::default()
        });
    }
    Ok(mounts)
}

fn one(
    container: &Container,
    index: usize,
    wanted: &VolumeMount,
    input: &MountInput<'_>,
) -> Result<v1::Mount, VolumeError> {
    let fail = |why: String| VolumeError::mount(&wanted.mount_path, why);
    let place = input
        .places
        .get(&wanted.name)
        .ok_or_else(|| fail(format!("the pod has no volume {:?}", wanted.name)))?;
    let part = part(wanted, input.variables).map_err(fail)?;
    let container_path = if wanted.mount_path.starts_with('/') {
        wanted.mount_path.clone()
    } else {
        format!("/{}", wanted.mount_path)
    };
    let mut mount = v1::Mount {
        container_path,
        readonly: wanted.read_only,
        ..v1::Mount::default()
    };
    match place {
        Place::Image { .. } => {
            let image = input.images.get(&wanted.name);
            let image = image.ok_or_else(|| fail("its image is not on this node".to_owned()))?;
            mount.image = Some(image.clone().map_err(fail)?);
            mount.image_sub_path = part.unwrap_or_default();
            mount.readonly = true;
            return Ok(mount);
        }
        Place::Path {
            path, read_only, ..
        } => {
            mount.readonly |= *read_only;
            let host_path = match part {
                None => path.clone(),
                Some(part) => {
                    let point = input.dirs.sub_path(&wanted.name, &container.name, index);
                    sub_path::bind(path, &part, &point)?
                }
            };
            mount.host_path = host_path.display().to_string();
        }
    }
    mount.set_propagation(match wanted.mount_propagation.as_deref() {
        Some("Bidirectional") => {
            if container.security_context.privileged != Some(true) {
                let why =
                    "Bidirectional mount propagation is allowed only for privileged containers";
                return Err(fail(why.to_owned()));
            }
            v1::MountPropagation::PropagationBidirectional
        }
        Some("HostToContainer") => v1::MountPropagation::PropagationHostToContainer,
        _ => v1::MountPropagation::PropagationPrivate,
    });
    mount.recursive_read_only = match wanted.recursive_read_only.as_deref() {
        Some("Enabled") if !input.recursive_read_only => {
            let why = "recursiveReadOnly is Enabled, but the runtime does not support it";
            return Err(fail(why.to_owned()));
        }
        Some("Enabled" | "IfPossible") => input.recursive_read_only && mount.readonly,
        _ => false,
    };
    Ok(mount)
}

/// Returns the subPath to mount, with the container's variables expanded.
fn part(
    wanted: &VolumeMount,
    variables: &BTreeMap<String, String>,
) -> Result<Option<String>, String> {
    if !wanted.sub_path.is_empty() {
        return Ok(Some(wanted.sub_path.clone()));
    }
    if wanted.sub_path_expr.is_empty() {
        return Ok(None);
    }
    let expanded = expand(&wanted.sub_path_expr, variables);
    if expanded.contains("$(") {
        return Err(format!(
            "the subPathExpr {:?} uses a variable that the container does not have",
            wanted.sub_path_expr
        ));
    }
    Ok(Some(expanded))
}

/// Creates the file for a container's termination message; every user in the container may write to
/// it.
pub(crate) fn termination_log(dirs: &PodDirs, container: &str) -> Result<PathBuf, VolumeError> {
    let dir = dirs.container(container);
    make_dir(&dir, 0o750)?;
    remove_older(&dir);
    let path = dir.join(format!("{:08x}", rand::random::<u32>()));
    File::create_new(&path)
        .and_then(|_| fs::set_permissions(&path, Permissions::from_mode(0o666)))
        .map_err(|source| VolumeError::io("create", &path, source))?;
    Ok(path)
}

/// Removes old files except those of the last instances, which may still be read.
fn remove_older(dir: &Path) {
    let mut files: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    files.pop();
    files.pop();
    for (_, path) in files {
        let _ = fs::remove_file(path);
    }
}
