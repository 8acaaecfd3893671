//! veth pairs: one end on the node, the other in a pod.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use super::call::Call;
use super::{reaper, sysctl};
use crate::MacAddress;
use crate::cni::Interface;
use crate::error::NativeError;
use crate::mac::random_bytes;
use crate::netlink::{NewVeth, Rtnl};
use crate::netns;

/// A new pair; deleted on drop before [`Self::keep`].
pub(super) struct Veth {
    pub(super) host: Port,
    pub(super) host_mac: MacAddress,
    pub(super) pod_mac: MacAddress,
    kept: bool,
}

/// The node's end of a pair.
pub(super) struct Port {
    pub(super) index: u32,
    pub(super) name: String,
}

/// The settings of a new pair.
pub(super) struct Plan {
    pub(super) mtu: Option<u32>,
    pub(super) mac: Option<MacAddress>,
}

impl Veth {
    pub(super) fn create(
        rtnl: &mut Rtnl,
        namespace: &File,
        call: &Call<'_>,
        plan: &Plan,
    ) -> Result<Self, NativeError> {
        let action = "create the pod's interface";
        // udev keeps an address that was set explicitly, but replaces the kernel's random one.
        let random = || MacAddress::random().map_err(NativeError::system(action));
        let host_mac = random()?;
        let pod_mac = plan.mac.map_or_else(random, Ok)?;
        let mut attempts = 0;
        loop {
            let host_name = random_name().map_err(NativeError::system(action))?;
            let made = rtnl.create_veth(&NewVeth {
                host_name: &host_name,
                host_mac,
                master: None,
                peer_name: call.if_name,
                peer_mac: pod_mac,
                peer_netns: namespace.as_fd(),
                mtu: plan.mtu,
            });
            match made {
                Ok(index) => {
                    return Ok(Self {
                        host: Port {
                            index,
                            name: host_name,
                        },
                        host_mac,
                        pod_mac,
                        kept: false,
                    });
                }
                // Either name can be in use; an earlier interface may be about to be deleted.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < 20 => {
                    attempts += 1;
                    if let Some(netns) = call.netns {
                        reaper::delete_early(netns, call.if_name)
                            .map_err(NativeError::system(action))?;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(NativeError::Conflict(format!(
                        "container veth name provided ({}) already exists",
                        call.if_name
                    )));
                }
                Err(error) => return Err(NativeError::system(action)(error)),
            }
        }
    }

    /// Makes the node's end a port of a bridge, without IPv6. The bridge has the addresses, and each further IPv6
    /// interface makes multicast slower.
    pub(super) fn plug(&self, rtnl: &mut Rtnl, bridge: u32) -> io::Result<()> {
        sysctl::try_set(
            &format!("net/ipv6/conf/{}/disable_ipv6", self.host.name),
            "1",
        );
        rtnl.connect(self.host.index, Some(bridge))
    }

    pub(super) fn host_interface(&self) -> Interface {
        Interface {
            name: self.host.name.clone(),
            mac: self.host_mac.to_string(),
            ..Interface::default()
        }
    }

    pub(super) fn pod_interface(&self, call: &Call<'_>) -> Interface {
        Interface {
            name: call.if_name.to_owned(),
            mac: self.pod_mac.to_string(),
            sandbox: call
                .netns
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            ..Interface::default()
        }
    }

    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let undone = Rtnl::open().and_then(|mut rtnl| rtnl.delete_link(self.host.index));
        if let Err(error) = undone {
            tracing::warn!(%error, interface = self.host.name, "cannot remove the interface of a failed attachment");
        }
    }
}

/// Takes a pod's interface out of use: removes its addresses now, and the interface soon. A missing namespace or
/// interface is not an error.
pub(super) fn retire(call: &Call<'_>) -> Result<(), NativeError> {
    let Some(namespace) = call.netns_if_there()? else {
        return Ok(());
    };
    let action = "remove the pod's interface";
    let mut rtnl =
        netns::inside(namespace.as_fd(), Rtnl::open).map_err(NativeError::system(action))?;
    let link = rtnl
        .link_by_name(call.if_name)
        .map_err(NativeError::system(action))?;
    let Some(link) = link else { return Ok(()) };
    let mut retire = || {
        for address in rtnl.addresses(link.index)? {
            match rtnl.delete_address(link.index, address.address) {
                // The interface is being deleted already.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EADDRNOTAVAIL | libc::ENODEV)
                    ) => {}
                done => done?,
            }
        }
        match call.netns {
            Some(netns) => reaper::delete_later(netns, &link),
            None => Ok(()),
        }
    };
    retire().map_err(NativeError::system(action))
}

/// Returns a random name in the form that all implementations use.
pub(super) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 4];
    random_bytes(&mut bytes)?;
    Ok(format!("veth{:08x}", u32::from_be_bytes(bytes)))
}
