//! Removes the cgroup of a pod or a container.

use std::time::Duration;

use orlop_cgroup::{Cgroup, CgroupPath, Hierarchies};

use crate::log::log;

/// How long the processes of a cgroup may take to exit.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills the processes of the cgroup at this path, if it exists, and removes it.
pub(crate) fn end(path: &str) {
    let path = CgroupPath::parse(path).ok().filter(|path| !path.is_root());
    if let (Some(path), Ok(hierarchies)) = (path, Hierarchies::detect()) {
        let cgroup = Cgroup::new(hierarchies.into(), path);
        if cgroup.exists() {
            let _ = cgroup.kill(PATIENCE);
            remove(Some(&cgroup), false);
        }
    }
}

/// Removes a cgroup. systemd removes a scope after its last process.
pub(crate) fn remove(cgroup: Option<&Cgroup>, is_scope: bool) {
    if let (Some(cgroup), false) = (cgroup, is_scope)
        && let Err(error) = cgroup.remove(PATIENCE)
    {
        log(&format!(
            "removing the pod's cgroup {}: {error}",
            cgroup.path()
        ));
    }
}
