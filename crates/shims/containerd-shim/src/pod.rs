//! State and configuration of a pod.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_cgroup::Cgroup;

use crate::spec::Spec;

/// The state of a pod apart from its task.
#[derive(Debug, Default)]
pub(crate) struct Pod {
    /// A pidfd of the first process in its PID namespace.
    pub(crate) init: Option<Arc<OwnedFd>>,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) is_scope: bool,
    /// Files that its containers share and that containerd does not provide, by their path in the container.
    pub(crate) shared: Vec<(&'static str, PathBuf)>,
}

/// The configuration of a pod.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Its network namespace: another one by path, its own, or the host's.
    pub(crate) network: Space,
    pub(crate) ipc: Space,
    pub(crate) uts: Space,
    pub(crate) pid: Space,
    pub(crate) hostname: String,
    pub(crate) sysctls: Vec<(String, String)>,
    pub(crate) cgroups_path: String,
    /// The size of the shared memory filesystem for its containers, if there is one.
    pub(crate) shm: Option<u64>,
}

/// The source of a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Space {
    #[default]
    Hosts,
    Own,
    At(PathBuf),
}

impl Wanted {
    /// Derives the configuration from the specification of a pause container.
    pub(crate) fn of(spec: &Spec) -> Self {
        let space = |kind: &str| match spec.namespace(kind) {
            None => Space::Hosts,
            Some(own) if own.path.as_os_str().is_empty() => Space::Own,
            Some(other) => Space::At(other.path.clone()),
        };
        let sysctls = spec.linux.sysctl.iter();
        Self {
            network: space("network"),
            ipc: space("ipc"),
            uts: space("uts"),
            pid: space("pid"),
            hostname: spec.hostname.clone(),
            sysctls: sysctls
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            cgroups_path: spec.linux.cgroups_path.clone(),
            shm: None,
        }
    }
}
