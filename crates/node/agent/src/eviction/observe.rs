//! Measures the available resources of the node.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::thresholds::{Observation, Signal};
use crate::meminfo::meminfo;
use crate::tasks;

/// The directories whose file systems are measured.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// Directory with the pods' volumes and logs.
    pub(crate) nodefs: PathBuf,
    /// Directory with images, if the runtime reports it.
    pub(crate) imagefs: Option<PathBuf>,
    /// Directory with the containers' writable layers, if the runtime reports it.
    pub(crate) containerfs: Option<PathBuf>,
}

impl Places {
    /// Whether writable layers are on the file system that an eviction signal measures. Reads files.
    pub(crate) fn layers_count_for(&self, signal: Signal) -> bool {
        let Some(layers) = self.containerfs.as_deref().and_then(device) else {
            return true;
        };
        match signal {
            Signal::NodeFs | Signal::NodeFsInodes => device(&self.nodefs) == Some(layers),
            Signal::ImageFs | Signal::ImageFsInodes => {
                self.imagefs.as_deref().and_then(device) == Some(layers)
            }
            _ => true,
        }
    }

    /// Whether images use the resource of a signal. Reads files.
    pub(crate) fn images_count_for(&self, signal: Signal) -> bool {
        let Some(images) = self.imagefs.as_deref().and_then(device) else {
            return true;
        };
        match signal {
            Signal::NodeFs | Signal::NodeFsInodes => device(&self.nodefs) == Some(images),
            Signal::ContainerFs | Signal::ContainerFsInodes => {
                self.containerfs.as_deref().and_then(device) == Some(images)
            }
            _ => true,
        }
    }

    /// Returns the directory of the writable layers if they have a file system of their own.
    fn third(&self) -> Option<&PathBuf> {
        let path = self.containerfs.as_ref()?;
        let layers = device(path)?;
        let others = [Some(self.nodefs.as_path()), self.imagefs.as_deref()];
        let is_known = others
            .into_iter()
            .flatten()
            .any(|it| device(it) == Some(layers));
        (!is_known).then_some(path)
    }
}

fn device(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|found| found.dev())
}

/// Measures the node. Resources that cannot be measured are missing. Reads files.
pub(crate) fn observe(places: &Places) -> BTreeMap<Signal, Observation> {
    let mut seen = BTreeMap::new();
    let memory = meminfo();
    let field = |name: &str| memory.get(name).copied();
    if let (Some(total), Some(free)) = (field("MemTotal"), field("MemFree")) {
        // As in the kubelet: everything except the working set, which excludes inactive cache.
        let available = free + field("Inactive(file)").unwrap_or_default();
        let observation = Observation {
            available: available.min(total),
            capacity: total,
        };
        seen.insert(Signal::Memory, observation);
    }
    let mut disk = |path: &PathBuf, space: Signal, inodes: Signal| {
        let Ok(found) = rustix::fs::statvfs(path) else {
            return;
        };
        let bytes = Observation {
            available: found.f_bavail.saturating_mul(found.f_frsize),
            capacity: found.f_blocks.saturating_mul(found.f_frsize),
        };
        let files = Observation {
            available: found.f_favail,
            capacity: found.f_files,
        };
        seen.insert(space, bytes);
        seen.insert(inodes, files);
    };
    disk(&places.nodefs, Signal::NodeFs, Signal::NodeFsInodes);
    if let Some(path) = &places.imagefs {
        disk(path, Signal::ImageFs, Signal::ImageFsInodes);
    }
    if let Some(path) = places.third() {
        disk(path, Signal::ContainerFs, Signal::ContainerFsInodes);
    }
    if let Some(pids) = pids() {
        seen.insert(Signal::Pids, pids);
    }
    seen
}

/// Returns how many more processes and threads the node can have.
fn pids() -> Option<Observation> {
    let (most, tasks) = (tasks::most()?, tasks::count()?);
    Some(Observation {
        available: most.saturating_sub(tasks),
        capacity: most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_something_of_everything() {
        let places = Places {
            nodefs: "/".into(),
            imagefs: Some("/".into()),
            containerfs: Some("/".into()),
        };
        let seen = observe(&places);
        assert!(!seen.contains_key(&Signal::ContainerFs), "it is the node's");
        for signal in [
            Signal::Memory,
            Signal::NodeFs,
            Signal::ImageFs,
            Signal::Pids,
        ] {
            let found = seen[&signal];
            assert!(
                found.capacity > 0 && found.available <= found.capacity,
                "{signal:?}"
            );
        }
    }

    #[test]
    fn layers_count_where_they_are() {
        let at = |nodefs: &str, imagefs: Option<&str>, containerfs: Option<&str>| Places {
            nodefs: nodefs.into(),
            imagefs: imagefs.map(Into::into),
            containerfs: containerfs.map(Into::into),
        };
        let (disk, other, third) = ("/", "/proc", "/sys");
        for (places, on_node, with_images, by_itself) in [
            (at(disk, Some(disk), Some(disk)), true, true, false),
            (at(disk, Some(other), Some(other)), false, true, false),
            (at(disk, Some(other), Some(disk)), true, false, false),
            (at(disk, Some(other), Some(third)), false, false, true),
            (at(disk, None, Some(third)), false, false, true),
            (at(disk, Some(other), None), true, true, false),
            (at(disk, Some(other), Some("/nowhere")), true, true, false),
        ] {
            let found =
                [Signal::NodeFs, Signal::ImageFsInodes].map(|it| places.layers_count_for(it));
            assert_eq!(found, [on_node, with_images], "{places:?}");
            assert!(places.layers_count_for(Signal::ContainerFs));
            assert!(places.images_count_for(Signal::ImageFsInodes));
            let seen = observe(&places).contains_key(&Signal::ContainerFs);
            assert_eq!(seen, by_itself, "{places:?}");
        }
    }

    #[test]
    fn images_are_dropped_for_the_disk_that_has_them() {
        let (disk, other, third) = ("/", "/proc", "/sys");
        for (imagefs, containerfs, node, containers) in [
            (Some(disk), disk, true, true),
            (Some(disk), third, true, false),
            (Some(other), disk, false, false),
            (Some(other), other, false, true),
            (Some(other), third, false, false),
            (None, third, true, true),
            (Some("/nowhere"), third, true, true),
        ] {
            let places = Places {
                nodefs: disk.into(),
                imagefs: imagefs.map(Into::into),
                containerfs: Some(containerfs.into()),
            };
            let found = [Signal::NodeFsInodes, Signal::ContainerFs];
            let found = found.map(|it| places.images_count_for(it));
            assert_eq!(found, [node, containers], "{places:?}");
        }
    }
}
