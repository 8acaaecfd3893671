//! Paths of the files that every container of a pod sees.

use std::path::PathBuf;

use crate::record::pod::Pod;

/// Paths of a pod's files.
#[derive(Debug, Clone)]
pub struct PodFiles {
    /// `/etc/hostname`.
    pub hostname: PathBuf,
    /// `/etc/hosts`.
    pub hosts: PathBuf,
    /// `/etc/resolv.conf`.
    pub resolv: PathBuf,
}

impl PodFiles {
    /// Returns the paths of a pod's files.
    pub fn of(pod: &Pod) -> Self {
        // Containers may write to them: on the tmpfs of the pod's sockets they could fill it.
        let at = |name: &str| pod.dir.join(name);
        Self {
            hostname: at("hostname"),
            hosts: at("hosts"),
            resolv: at("resolv.conf"),
        }
    }
}
