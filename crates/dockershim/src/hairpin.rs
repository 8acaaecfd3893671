//! How a pod on the engine's own bridge reaches itself through its service: the bridge must send
//! a packet back to where it came from.
//!
//! With CNI the network's configuration says it (`hairpinMode`), and nothing is done here.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::{Hairpin, NetworkPlugin};
use crate::error::{Error, Result};

/// What is in force: a bridge that takes all packets is the engine's to make, and it makes none,
/// so that the pods' own ports are told instead.
pub(crate) fn effective(wanted: Hairpin, plugin: NetworkPlugin) -> Hairpin {
    match (wanted, plugin) {
        (Hairpin::None, _) | (_, NetworkPlugin::None) => Hairpin::None,
        (Hairpin::PromiscuousBridge | Hairpin::HairpinVeth, _) => Hairpin::HairpinVeth,
    }
}

/// Sets it for the pod with this process.
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
    // The pod's /sys is that of its own namespace.
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
