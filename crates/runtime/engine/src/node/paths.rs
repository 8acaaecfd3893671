//! Paths of the service's files on disk.

use std::path::{Path, PathBuf};

use orlop_cri_api::v1::NamespaceMode;

use crate::record::container::Container;
use crate::record::ids::PodId;
use crate::record::pod::Pod;

/// Paths of the service's files.
#[derive(Debug, Clone)]
pub struct Paths {
    containers_root: PathBuf,
    state: PathBuf,
}

impl Paths {
    /// Takes the directory of pod data that survives a reboot, and that of pod data that does not.
    pub fn new(containers_root: &Path, state: &Path) -> Self {
        Self {
            containers_root: containers_root.to_owned(),
            state: state.to_owned(),
        }
    }

    /// The directory of the pods' records.
    pub fn pods(&self) -> PathBuf {
        self.containers_root.join("pods")
    }

    /// The directory of data that lives only as long as the pods.
    pub fn runs(&self) -> PathBuf {
        self.state.join("pods")
    }

    /// The directory where network namespaces of pods are pinned.
    pub fn net_pins(&self) -> PathBuf {
        self.state.join("netns")
    }

    /// The path where a pod's network namespace is pinned.
    pub fn net_pin(&self, pod: &PodId) -> PathBuf {
        self.net_pins().join(pod.as_str())
    }

    /// The file that lists the listeners of events.
    pub fn listeners(&self) -> PathBuf {
        self.state.join("listeners")
    }

    /// The file that lists the resctrl groups made for classes.
    pub fn rdt_groups(&self) -> PathBuf {
        self.state.join("rdt-groups")
    }

    /// The directory below which keepers mount what the host does not see.
    pub fn private(&self) -> PathBuf {
        private_dir(&self.state)
    }

    /// The mount point of a pod's shared memory, mounted by its keeper.
    pub fn shm(&self, pod: &Pod) -> PathBuf {
        self.private().join("shm").join(pod.id.as_str())
    }

    /// The mount point of a container's root file system and image volumes, mounted by the pod's keeper.
    pub fn mounts(&self, container: &Container) -> PathBuf {
        self.private().join("rootfs").join(container.id.as_str())
    }

    /// The source of `/dev/shm` for a pod's containers.
    pub fn shm_for(&self, pod: &Pod) -> PathBuf {
        match pod.namespaces().ipc() {
            NamespaceMode::Node => PathBuf::from("/dev/shm"),
            _ => self.shm(pod),
        }
    }
}

/// The directory below which keepers mount what the host does not see.
pub(crate) fn private_dir(state: &Path) -> PathBuf {
    state.join("private")
}
