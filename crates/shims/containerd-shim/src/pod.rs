//! What there is of a pod, and what one is to be.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_cgroup::Cgroup;

use crate::spec::Spec;

/// What there is of a pod beside its task.
#[derive(Debug, Default)]
pub(crate) struct Pod {
    /// The first process of its PID namespace.
    pub(crate) init: Option<Arc<OwnedFd>>,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) is_scope: bool,
    /// Files that its containers share and that nobody else gives them, by their place there.
    pub(crate) shared: Vec<(&'static str, PathBuf)>,
}

/// What a pod is to be.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Its network namespace: another's by its path, one of its own, or the host's.
    pub(crate) network: Space,
    pub(crate) ipc: Space,
    pub(crate) uts: Space,
    pub(crate) pid: Space,
    pub(crate) hostname: String,
    pub(crate) sysctls: Vec<(String, String)>,
    pub(crate) cgroups_path: String,
    /// How large the file system for shared memory is that its containers find, if they find one.
    pub(crate) shm: Option<u64>,
}

/// Whose namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Space {
    #[default]
    Hosts,
    Own,
    At(PathBuf),
}

impl Wanted {
    /// What the container would be that only waits.
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
