//! Where the service keeps what it has on disk.

use std::path::{Path, PathBuf};

use orlop_cri_api::v1::NamespaceMode;

use crate::record::container::Container;
use crate::record::ids::PodId;
use crate::record::pod::Pod;

/// Where things are.
#[derive(Debug, Clone)]
pub struct Paths {
    containers_root: PathBuf,
    state: PathBuf,
}

impl Paths {
    /// Below the directory of what of pods survives a reboot and that of what does not.
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

    /// The directory of what lives only as long as the pods do.
    pub fn runs(&self) -> PathBuf {
        self.state.join("pods")
    }

    /// Where the network namespaces of pods are pinned.
    pub fn net_pins(&self) -> PathBuf {
        self.state.join("netns")
    }

    /// Where a pod's network namespace is pinned.
    pub fn net_pin(&self, pod: &PodId) -> PathBuf {
        self.net_pins().join(pod.as_str())
    }

    /// The file that says who listens to events.
    pub fn listeners(&self) -> PathBuf {
        self.state.join("listeners")
    }

    /// The file that says which groups of resctrl were a class's.
    pub fn rdt_groups(&self) -> PathBuf {
        self.state.join("rdt-groups")
    }

    /// Below here keepers mount what the host does not see.
    pub fn private(&self) -> PathBuf {
        private_dir(&self.state)
    }

    /// Where a pod's shared memory is mounted, by its keeper.
    pub fn shm(&self, pod: &Pod) -> PathBuf {
        self.private().join("shm").join(pod.id.as_str())
    }

    /// Where a container's root file system and image volumes are mounted, by its pod's keeper.
    pub fn mounts(&self, container: &Container) -> PathBuf {
        self.private().join("rootfs").join(container.id.as_str())
    }

    /// What a pod's containers have as `/dev/shm`.
    pub fn shm_for(&self, pod: &Pod) -> PathBuf {
        match pod.namespaces().ipc() {
            NamespaceMode::Node => PathBuf::from("/dev/shm"),
            _ => self.shm(pod),
        }
    }
}

/// Below here keepers mount what the host does not see.
pub(crate) fn private_dir(state: &Path) -> PathBuf {
    state.join("private")
}
