//! Hairpin mode: a pod on the engine's bridge reaches itself through its service if the bridge sends a packet back to
//! its source port.
//!
//! With CNI the network configuration sets it (`hairpinMode`), and nothing is done here.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::{Hairpin, NetworkPlugin};
use crate::error::{Error, Result};

/// Returns the mode in force. Only the engine could make its bridge promiscuous, and it does not; hairpin mode of the
/// pods' ports is used instead.
pub(crate) fn effective(wanted: Hairpin, plugin: NetworkPlugin) -> Hairpin {
    match (wanted, plugin) {
        (Hairpin::None, _) | (_, NetworkPlugin::None) => Hairpin::None,
        (Hairpin::PromiscuousBridge | Hairpin::HairpinVeth, _) => Hairpin::HairpinVeth,
    }
}

/// Sets the mode for the pod of this process.
pub(crate) async fn set(wanted: Hairpin, plugin: NetworkPlugin, pid: i32) -> Result<()> {
    if effective(wanted, plugin) != Hairpin::HairpinVeth {
        return Ok(());
    }
    let done = orlop_pool::blocking(move || set_port(pid, Path::new("/sys/class/net")));
    let doing = "enabling hairpin mode on the pod's bridge port";
    match done.await {
        Ok(done) => Ok(done.map_err(Error::io(doing))?),
        Err(_) => Err(Error::Internal(doing.to_owned()).into()),
    }
}

fn set_port(pid: i32, interfaces: &Path) -> io::Result<()> {
    // The pod's /sys shows its own network namespace.
    let link = PathBuf::from(format!("/proc/{pid}/root/sys/class/net/eth0/iflink"));
    let peer = orlop_fs::read_kernel_text(link)?;
    for entry in std::fs::read_dir(interfaces)? {
        let interface = entry?.path();
        let index = orlop_fs::read_kernel_text(interface.join("ifindex")).unwrap_or_default();
        let mode = interface.join("brport/hairpin_mode");
        if index.trim() == peer.trim() && mode.exists() {
            return std::fs::write(mode, "1");
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no bridge port has the interface index {}", peer.trim()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_in_force_follows_the_plugin() {
        use Hairpin::{HairpinVeth, PromiscuousBridge};
        use NetworkPlugin::{Bridge, Cni};
        assert_eq!(effective(PromiscuousBridge, Bridge), HairpinVeth);
        assert_eq!(effective(PromiscuousBridge, Cni), HairpinVeth);
        assert_eq!(effective(HairpinVeth, NetworkPlugin::None), Hairpin::None);
        assert_eq!(effective(Hairpin::None, Bridge), Hairpin::None);
    }
}
