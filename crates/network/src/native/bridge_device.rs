//! The bridge device, and its address as the pods' gateway.

use std::io;

use super::bridge_conf::BridgeConf;
use super::{bridge_vlan, sysctl};
use crate::error::NativeError;
use crate::netlink::{Link, NewBridge, Rtnl};
use crate::{Cidr, MacAddress};

/// Returns the bridge; creates it if it does not exist.
pub(super) fn ensure(
    rtnl: &mut Rtnl,
    conf: &BridgeConf,
    vlan_filtering: bool,
) -> Result<Link, NativeError> {
    let name = &conf.bridge;
    let action = || format!("create the bridge {name}");
    if let Some(link) = find(rtnl, name)? {
        if conf.promisc_mode && !link.is_promiscuous() {
            rtnl.set_flags(link.index, libc::IFF_PROMISC, true)
                .map_err(NativeError::system(action()))?;
        }
        if !link.is_up() {
            rtnl.set_up(link.index)
                .map_err(NativeError::system(action()))?;
        }
        if vlan_filtering && !link.vlan_filtering {
            // The setting stays: other users of the bridge may rely on it.
            tracing::warn!(
                bridge = name,
                "this bridge ignores VLAN tags; pods are not separated by VLAN"
            );
        }
        return Ok(link);
    }
    let mac = MacAddress::random().map_err(NativeError::system(action()))?;
    let bridge = NewBridge {
        name,
        mac,
        mtu: conf.mtu(),
        vlan_filtering,
    };
    match rtnl.create_bridge(&bridge) {
        // Another pod created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => done.map_err(|error| bridge_vlan::unsupported(error, &action()))?,
    }
    let link = find(rtnl, name)?.ok_or_else(|| {
        NativeError::Conflict(format!("another program removed the bridge {name}"))
    })?;
    // The node does not accept router advertisements from pods.
    sysctl::try_set(&format!("net/ipv6/conf/{name}/accept_ra"), "0");
    let mut flags = libc::IFF_UP;
    if conf.promisc_mode {
        flags |= libc::IFF_PROMISC;
    }
    rtnl.set_flags(link.index, flags, true)
        .map_err(NativeError::system(action()))?;
    Ok(link)
}

/// Returns the bridge, if it exists; another kind of interface with that name is an error.
pub(super) fn find(rtnl: &mut Rtnl, name: &str) -> Result<Option<Link>, NativeError> {
    let link = rtnl
        .link_by_name(name)
        .map_err(NativeError::system(format!("find the bridge {name}")))?;
    match link {
        Some(link) if link.kind != "bridge" => Err(NativeError::Conflict(format!(
            "{name:?} already exists but is not a bridge"
        ))),
        link => Ok(link),
    }
}

/// Assigns a gateway's address to the bridge.
pub(super) fn ensure_address(
    rtnl: &mut Rtnl,
    bridge: &Link,
    address: Cidr,
    force: bool,
) -> Result<(), NativeError> {
    let name = &bridge.name;
    let action = || format!("add the address {address} to the bridge {name}");
    let there = rtnl
        .addresses(bridge.index)
        .map_err(NativeError::system(action()))?;
    for other in there.iter().map(|other| other.address) {
        if other == address {
            return Ok(());
        }
        if other.is_ipv4() != address.is_ipv4() {
            continue;
        }
        // A bridge has one IPv4 address; its IPv6 addresses must not overlap.
        let overlap = other.contains(address.address()) || address.contains(other.address());
        if !address.is_ipv4() && !overlap {
            continue;
        }
        if !force {
            return Err(NativeError::Conflict(format!(
                "{name:?} already has an IP address different from {address}"
            )));
        }
        rtnl.delete_address(bridge.index, other)
            .map_err(NativeError::system(action()))?;
    }
    match rtnl.add_address(bridge.index, address) {
        // Another pod added it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => done.map_err(NativeError::system(action()))?,
    }
    // A fixed address stays when interfaces join or leave the bridge.
    if let Some(mac) = bridge.mac {
        rtnl.set_mac(bridge.index, mac)
            .map_err(NativeError::system(action()))?;
    }
    Ok(())
}
