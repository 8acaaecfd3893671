//! VLANs on a bridge: the VLANs of a pod's port, and the node's own interface in the pods' VLAN.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

use serde::Deserialize;

use super::veth::{Port, random_name};
use crate::error::NativeError;
use crate::netlink::{Link, NewVeth, PortVlan, Rtnl, VlanId};
use crate::{InterfaceName, MacAddress};

/// The plugin's configuration keys about VLANs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VlanConf {
    #[serde(default)]
    vlan: i64,
    #[serde(default)]
    vlan_trunk: Option<Vec<Trunk>>,
    #[serde(default)]
    preserve_default_vlan: bool,
}

/// One VLAN of a trunk, or a range of them.
#[derive(Debug, Deserialize)]
struct Trunk {
    #[serde(default, rename = "minID")]
    min: Option<i64>,
    #[serde(default, rename = "maxID")]
    max: Option<i64>,
    #[serde(default)]
    id: Option<i64>,
}

/// The VLANs of a pod's port.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Vlans {
    /// The pod's own VLAN.
    pub(super) own: Option<VlanId>,
    trunk: BTreeSet<VlanId>,
    /// Whether the bridge filters by VLAN tags.
    pub(super) filtering: bool,
    keep_default: bool,
}

impl Vlans {
    pub(super) fn read(conf: &VlanConf) -> Result<Self, NativeError> {
        let own = match conf.vlan {
            0 => None,
            number => Some(VlanId::new(number).ok_or_else(|| {
                NativeError::Config(format!(
                    "invalid VLAN ID {number} (must be between 0 and 4094)"
                ))
            })?),
        };
        let mut trunk = BTreeSet::new();
        for entry in conf.vlan_trunk.iter().flatten() {
            entry.add_to(&mut trunk)?;
        }
        Ok(Self {
            own,
            trunk,
            filtering: own.is_some() || conf.vlan_trunk.is_some(),
            keep_default: conf.preserve_default_vlan,
        })
    }

    /// Assigns the VLANs to a bridge's port; removes all others unless they should stay.
    pub(super) fn apply(&self, rtnl: &mut Rtnl, port: &Port) -> Result<(), NativeError> {
        let mut wanted: Vec<_> = self.own.map(PortVlan::Native).into_iter().collect();
        let tagged = self.trunk.iter().copied();
        wanted.extend(tagged.map(PortVlan::Tagged));
        if wanted.is_empty() {
            return Ok(());
        }
        if self.own.is_none() {
            // On a trunk without an own VLAN, untagged packets belong to this one.
            wanted.push(PortVlan::Native(VlanId::DEFAULT));
        }
        let mut change = || {
            if !self.keep_default {
                let there = rtnl.port_vlans(port.index)?;
                rtnl.remove_port_vlans(port.index, &there)?;
            }
            rtnl.add_port_vlans(port.index, &wanted)
        };
        change().map_err(|error| unsupported(error, &format!("set the VLANs of {}", port.name)))
    }

    /// Returns the node's interface in the pod's VLAN, `BRIDGE.NUMBER`, which has the gateways' addresses. It is one
    /// end of a pair whose other end is a port of the bridge. The function creates it if missing, and completes an
    /// interrupted attempt.
    pub(super) fn gateway(
        &self,
        rtnl: &mut Rtnl,
        bridge: &Link,
        id: VlanId,
    ) -> Result<Link, NativeError> {
        let name = format!("{}.{}", bridge.name, id.number());
        if name.parse::<InterfaceName>().is_err() {
            return Err(NativeError::Config(format!(
                "{name:?} is too long for an interface name; use a shorter name for the bridge of \
                 a VLAN gateway"
            )));
        }
        let action = format!("create the gateway interface {name}");
        let find = |rtnl: &mut Rtnl| {
            let found = rtnl.link_by_name(&name);
            found.map_err(NativeError::system(action.clone()))
        };
        let gateway = if let Some(link) = find(rtnl)? {
            link
        } else {
            match make_pair(rtnl, bridge, &name) {
                // Another pod created it first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => done.map_err(NativeError::system(action.clone()))?,
            }
            find(rtnl)?.ok_or_else(|| {
                NativeError::Conflict(format!("another program removed the interface {name}"))
            })?
        };
        self.finish_gateway(rtnl, bridge, &gateway, id)
            .map_err(|error| unsupported(error, &action))?;
        Ok(gateway)
    }

    fn finish_gateway(
        &self,
        rtnl: &mut Rtnl,
        bridge: &Link,
        gateway: &Link,
        id: VlanId,
    ) -> io::Result<()> {
        let port = match gateway.peer {
            Some(peer) if gateway.kind == "veth" => rtnl.link_by_index(peer)?,
            // The administrator created the interface; it stays as it is.
            _ => None,
        };
        if let Some(port) = port.filter(|port| port.master == Some(bridge.index)) {
            let there = rtnl.port_vlans(port.index)?;
            if !there.contains(&id) {
                if !self.keep_default {
                    rtnl.remove_port_vlans(port.index, &there)?;
                }
                rtnl.add_port_vlans(port.index, &[PortVlan::Native(id)])?;
            }
        }
        if gateway.is_up() {
            return Ok(());
        }
        rtnl.set_up(gateway.index)
    }
}

impl Trunk {
    fn add_to(&self, all: &mut BTreeSet<VlanId>) -> Result<(), NativeError> {
        let wrong = |what: &str| NativeError::Config(what.to_owned());
        let id = |number: i64, name: &str| {
            VlanId::new(number).ok_or_else(|| wrong(&format!("incorrect trunk {name} parameter")))
        };
        let missing = |name: &str| {
            wrong(&format!(
                "minID and maxID should be configured simultaneously, {name} is missing"
            ))
        };
        match (self.min, self.max) {
            (Some(min), Some(max)) => {
                let (min, max) = (id(min, "minID")?, id(max, "maxID")?);
                if max < min {
                    return Err(wrong("minID is greater than maxID in trunk parameter"));
                }
                let numbers = min.number()..=max.number();
                all.extend(numbers.filter_map(|number| VlanId::new(number.into())));
            }
            (None, Some(_)) => return Err(missing("minID")),
            (Some(_), None) => return Err(missing("maxID")),
            (None, None) => {}
        }
        if let Some(number) = self.id {
            all.insert(id(number, "id")?);
        }
        Ok(())
    }
}

fn make_pair(rtnl: &mut Rtnl, bridge: &Link, name: &str) -> io::Result<()> {
    let here = File::open("/proc/thread-self/ns/net")?;
    rtnl.create_veth(&NewVeth {
        host_name: &random_name()?,
        host_mac: MacAddress::random()?,
        master: Some(bridge.index),
        peer_name: name,
        peer_mac: MacAddress::random()?,
        peer_netns: here.as_fd(),
        mtu: Some(bridge.mtu),
    })
    .map(drop)
}

/// Converts the kernel's error about VLANs.
pub(super) fn unsupported(error: io::Error, action: &str) -> NativeError {
    if error.raw_os_error() == Some(libc::EOPNOTSUPP) {
        return NativeError::Unsupported(format!(
            "cannot {action}: the kernel does not support VLANs on bridges (CONFIG_BRIDGE_VLAN_FILTERING)"
        ));
    }
    NativeError::system(action)(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(conf: Value) -> Result<Vlans, String> {
        let conf: VlanConf = serde_json::from_value(conf).unwrap();
        Vlans::read(&conf).map_err(|error| error.to_string())
    }

    #[test]
    fn trunks_are_gathered_and_ordered() {
        let vlans = read(json!({"vlanTrunk": [{"id": 200}, {"minID": 5, "maxID": 7, "id": 2}]}));
        let vlans = vlans.unwrap();
        let numbers: Vec<_> = vlans.trunk.iter().map(|id| id.number()).collect();
        assert_eq!(numbers, [2, 5, 6, 7, 200]);
        assert!(vlans.filtering && vlans.own.is_none());
        assert_eq!(read(json!({"vlan": 0})).unwrap(), Vlans::default());
    }

    #[test]
    fn numbers_that_are_no_vlans_are_refused_in_the_plugin_s_words() {
        for (conf, said) in [
            (json!({"vlan": 4095}), "invalid VLAN ID 4095"),
            (json!({"vlan": -1}), "invalid VLAN ID -1"),
            (json!({"vlanTrunk": [{"id": 0}]}), "incorrect trunk id"),
            (json!({"vlanTrunk": [{"minID": 3}]}), "maxID is missing"),
            (json!({"vlanTrunk": [{"maxID": 3}]}), "minID is missing"),
            (
                json!({"vlanTrunk": [{"minID": 0, "maxID": 3}]}),
                "incorrect trunk minID",
            ),
            (
                json!({"vlanTrunk": [{"minID": 4, "maxID": 3}]}),
                "greater than maxID",
            ),
        ] {
            let error = read(conf).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
