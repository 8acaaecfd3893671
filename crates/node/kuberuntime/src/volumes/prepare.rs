//! Creates and updates all volumes of a pod.

use std::collections::BTreeMap;
use std::path::PathBuf;

use orlop_kubelet_rules::cri_config::{NodeFacts, Values};
use orlop_kubelet_rules::pod::{Container, Pod, PullPolicy, Volume};

use super::dirs::make_dir;
use super::owner::Ownership;
use super::payload::{Given, Payload};
use super::{PodDirs, VolumeError, atomic, empty_dir, host_path};

/// Where the files of a volume are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the host.
    Path {
        /// The path on the host.
        path: PathBuf,
        /// Whether it is read-only.
        read_only: bool,
        /// Whether it belongs to the node instead of the pod.
        of_node: bool,
    },
    /// In an image.
    Image {
        /// The image.
        reference: String,
        /// When the image is pulled.
        policy: Option<PullPolicy>,
    },
}

/// The locations of a pod's volumes by name.
pub(crate) type Places = BTreeMap<String, Place>;

/// Lists the host paths whose type is checked before the pod may use them.
pub(crate) fn checked_paths(pod: &Pod) -> Vec<PathBuf> {
    let named = pod
        .spec
        .volumes
        .iter()
        .filter_map(|it| it.host_path.as_ref());
    named
        .filter(|wanted| !wanted.kind.is_empty())
        .map(|wanted| PathBuf::from(&wanted.path))
        .collect()
}

/// Returns the host paths of those volumes that belong to the node.
pub(crate) fn paths_of_node<'a>(
    volumes: impl Iterator<Item = &'a str>,
    places: &Places,
) -> Vec<PathBuf> {
    let of_node = volumes.filter_map(|volume| match places.get(volume)? {
        Place::Path {
            path,
            of_node: true,
            ..
        } => Some(path.clone()),
        _ => None,
    });
    of_node.collect()
}

/// Returns the host paths of which the container mounts a subPath, which must be resolved there.
pub(crate) fn parts_of_node(container: &Container, places: &Places) -> Vec<PathBuf> {
    let mounts = container.volume_mounts.iter();
    let parts = mounts.filter(|it| !it.sub_path.is_empty() || !it.sub_path_expr.is_empty());
    paths_of_node(parts.map(|it| it.name.as_str()), places)
}

/// Creates a pod's volumes, or updates them. Blocks.
pub(crate) fn prepare(
    dirs: &PodDirs,
    pod: &Pod,
    facts: &NodeFacts,
    values: &dyn Values,
) -> Result<Places, VolumeError> {
    dirs.make()?;
    let given = Given { pod, facts, values };
    let mut places = Places::new();
    for volume in &pod.spec.volumes {
        let plain = !volume.name.is_empty()
            && volume.name.len() <= 63
            && !volume.name.contains(['/', '\0'])
            && !volume.name.starts_with('.');
        if !plain {
            return Err(VolumeError::volume(&volume.name, "its name is not valid"));
        }
        let place = one(dirs, volume, &given)?;
        places.insert(volume.name.clone(), place);
    }
    Ok(places)
}

fn one(dirs: &PodDirs, volume: &Volume, given: &Given<'_>) -> Result<Place, VolumeError> {
    let name = volume.name.as_str();
    let context = &given.pod.spec.security_context;
    let ownership = |read_only| Ownership {
        group: context.fs_group.and_then(|group| u32::try_from(group).ok()),
        read_only,
        on_mismatch_only: context.fs_group_change_policy.as_deref() == Some("OnRootMismatch"),
    };
    let written = |kind: &str, payload: Payload, secret: bool| {
        let path = dirs.volume(kind, name);
        if secret {
            empty_dir::secret_dir(&path)?;
        } else {
            make_dir(&path, 0o755)?;
        }
        atomic::write(&path, &payload, ownership(true))?;
        Ok(Place::Path {
            path,
            read_only: true,
            of_node: false,
        })
    };
    if let Some(wanted) = &volume.host_path {
        host_path::check(name, wanted)?;
        return Ok(Place::Path {
            path: wanted.path.clone().into(),
            read_only: false,
            of_node: true,
        });
    }
    if let Some(wanted) = &volume.config_map {
        return written("configmap", given.config_map(name, wanted, None)?, false);
    }
    if let Some(wanted) = &volume.secret {
        return written("secret", given.secret(name, wanted, None)?, true);
    }
    if let Some(wanted) = &volume.downward_api {
        return written("downward-api", given.downward(name, wanted, None)?, false);
    }
    if let Some(wanted) = &volume.projected {
        let secret = wanted.sources.iter().any(|source| source.secret.is_some());
        return written("projected", given.projected(name, wanted)?, secret);
    }
    if let Some(wanted) = &volume.image {
        return Ok(Place::Image {
            reference: wanted.reference.clone(),
            policy: wanted.pull_policy,
        });
    }
    if let Some(kind) = volume.other.keys().next() {
        let why = format!(
            "volumes of kind {kind} need a cluster or a driver; this node supports emptyDir, \
             hostPath, configMap, secret, downwardAPI, projected and image"
        );
        return Err(VolumeError::volume(name, why));
    }
    // A volume without a source is an `emptyDir`.
    let wanted = volume.empty_dir.clone().unwrap_or_default();
    let path = dirs.volume("empty-dir", name);
    let fresh = !path.exists();
    empty_dir::make(&path, name, given.pod, &wanted, given.facts.memory)?;
    if fresh {
        ownership(false).apply(&path)?;
    }
    Ok(Place::Path {
        path,
        read_only: false,
        of_node: false,
    })
}
