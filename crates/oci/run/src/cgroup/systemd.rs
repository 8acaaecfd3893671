//! The connection to systemd for cgroups.

use orlop_cgroup::Systemd;
use rustix::process::geteuid;

use crate::error::{Result, While};

/// Returns the systemd that makes a container's cgroup. For root of a user namespace it is the system manager inside
/// that namespace, if the machine is a container itself, else the manager of the user outside.
pub(super) fn systemd(rootless: bool) -> Result<Systemd> {
    let connected = if !rootless {
        Systemd::connect()
    } else if geteuid().is_root() {
        Systemd::connect_to_own().or_else(|_| Systemd::connect_to_users())
    } else {
        Systemd::connect_to_users()
    };
    connected.doing(|| "unable to communicate with systemd".to_owned())
}
