//! The systemd that is asked for cgroups.

use orlop_cgroup::Systemd;
use rustix::process::geteuid;

use crate::error::{Result, While};

/// The systemd that makes a container's cgroup. For who is root of a user namespace alone it is the one that is at
/// home there, in a machine that is a container itself, else that of the user whom it is outside.
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
