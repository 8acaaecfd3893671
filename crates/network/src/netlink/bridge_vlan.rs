//! VLANs of bridge ports.

use std::io;

use super::bridge_port::header;
use super::message::{Attributes, Message};
use super::socket::Rtnl;

/// A VLAN number: 1 to 4094, the range that IEEE 802.1Q allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VlanId(u16);

/// A VLAN that a port carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PortVlan {
    /// Untagged packets belong to this VLAN, and its packets leave untagged.
    Native(VlanId),
    /// Packets of this VLAN are tagged in both directions.
    Tagged(VlanId),
}

// <linux/if_link.h>, <linux/if_bridge.h>, <linux/rtnetlink.h>
const IFLA_AF_SPEC: u16 = 26;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_BRIDGE_FLAGS: u16 = 0;
const IFLA_BRIDGE_VLAN_INFO: u16 = 2;
const BRIDGE_FLAGS_MASTER: u16 = 1;
const VLAN_PVID: u16 = 1 << 1;
const VLAN_UNTAGGED: u16 = 1 << 2;
const VLAN_RANGE_BEGIN: u16 = 1 << 3;
const VLAN_RANGE_END: u16 = 1 << 4;
const RTEXT_FILTER_BRVLAN_COMPRESSED: u32 = 1 << 2;

impl VlanId {
    /// The default VLAN, also of the kernel.
    pub(crate) const DEFAULT: Self = Self(1);

    pub(crate) fn new(number: i64) -> Option<Self> {
        let number = u16::try_from(number).ok()?;
        (1..=4094).contains(&number).then_some(Self(number))
    }

    pub(crate) fn number(self) -> u16 {
        self.0
    }
}

impl Rtnl {
    /// Adds VLANs to a bridge's port.
    pub(crate) fn add_port_vlans(&mut self, port: u32, vlans: &[PortVlan]) -> io::Result<()> {
        let mut entries = Vec::new();
        let mut tagged = Vec::new();
        for vlan in vlans {
            match vlan {
                PortVlan::Native(id) => entries.push((VLAN_PVID | VLAN_UNTAGGED, id.0)),
                PortVlan::Tagged(id) => tagged.push(*id),
            }
        }
        entries.extend(in_ranges(&tagged));
        self.change_port_vlans(libc::RTM_SETLINK, port, &entries)
    }

    /// Removes VLANs from a bridge's port.
    pub(crate) fn remove_port_vlans(&mut self, port: u32, vlans: &[VlanId]) -> io::Result<()> {
        self.change_port_vlans(libc::RTM_DELLINK, port, &in_ranges(vlans))
    }

    /// Lists the VLANs of a bridge's port.
    pub(crate) fn port_vlans(&mut self, port: u32) -> io::Result<Vec<VlanId>> {
        let message = Message::new(libc::RTM_GETLINK, 0)
            .fixed(&header(0))
            .attr_u32(IFLA_EXT_MASK, RTEXT_FILTER_BRVLAN_COMPRESSED);
        let replies = self.0.dump(message)?;
        let of_port = replies.iter().filter_map(|(_, body)| {
            let index = u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?);
            (index == port).then_some(Attributes(body.get(16..)?).inner(IFLA_AF_SPEC))
        });
        Ok(of_port.flat_map(listed).collect())
    }

    fn change_port_vlans(
        &mut self,
        kind: u16,
        port: u32,
        entries: &[(u16, u16)],
    ) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let message = Message::new(kind, 0).fixed(&header(port));
        self.0.request(message.nest(IFLA_AF_SPEC, |spec| {
            let spec = spec.attr(IFLA_BRIDGE_FLAGS, &BRIDGE_FLAGS_MASTER.to_ne_bytes());
            entries.iter().fold(spec, |spec, (flags, id)| {
                // struct bridge_vlan_info: flags, vid
                let mut info = [0; 4];
                info[..2].copy_from_slice(&flags.to_ne_bytes());
                info[2..].copy_from_slice(&id.to_ne_bytes());
                spec.attr(IFLA_BRIDGE_VLAN_INFO, &info)
            })
        }))
    }
}

/// Converts ascending VLANs to ranges, as the kernel expects them: each range as its two ends.
fn in_ranges(vlans: &[VlanId]) -> Vec<(u16, u16)> {
    let follows = |a: &VlanId, b: &VlanId| a.0 + 1 == b.0;
    let runs = vlans.chunk_by(follows);
    runs.flat_map(|run| match run {
        [] => Vec::new(),
        [only] => vec![(0, only.0)],
        [first, .., last] => vec![(VLAN_RANGE_BEGIN, first.0), (VLAN_RANGE_END, last.0)],
    })
    .collect()
}

fn listed(spec: Attributes<'_>) -> Vec<VlanId> {
    let mut found = Vec::new();
    let mut begin = None;
    for (kind, info) in spec {
        let (IFLA_BRIDGE_VLAN_INFO, &[a, b, c, d, ..]) = (kind, info) else {
            continue;
        };
        let (flags, id) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
        if flags & VLAN_RANGE_BEGIN != 0 {
            begin = Some(id);
            continue;
        }
        let first = begin.take().filter(|_| flags & VLAN_RANGE_END != 0);
        found.extend((first.unwrap_or(id)..=id).map(VlanId));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[i64]) -> Vec<VlanId> {
        let ids = numbers.iter().map(|number| VlanId::new(*number).unwrap());
        ids.collect()
    }

    #[test]
    fn runs_of_vlans_are_named_by_their_ends() {
        assert_eq!(
            in_ranges(&ids(&[2, 5, 6, 7, 9, 10])),
            [(0, 2), (8, 5), (16, 7), (8, 9), (16, 10)]
        );
        assert!(VlanId::new(0).is_none() && VlanId::new(4095).is_none());
    }

    #[test]
    fn what_a_port_carries_is_read_back() {
        let info = |flags: u16, id: u16| [flags.to_ne_bytes(), id.to_ne_bytes()].concat();
        let bytes = Message::new(0, 0)
            .nest(IFLA_AF_SPEC, |spec| {
                spec.attr(IFLA_BRIDGE_VLAN_INFO, &info(6, 1))
                    .attr(IFLA_BRIDGE_VLAN_INFO, &info(VLAN_RANGE_BEGIN, 10))
                    .attr(IFLA_BRIDGE_VLAN_INFO, &info(VLAN_RANGE_END, 12))
            })
            .finish(1, 0)
            .unwrap();
        let spec = Attributes(&bytes[16..]).inner(IFLA_AF_SPEC);
        assert_eq!(listed(spec), ids(&[1, 10, 11, 12]));
    }
}
