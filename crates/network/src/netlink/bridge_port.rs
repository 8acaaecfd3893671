//! Ports of bridges: hairpin, isolation, VLANs.

use std::io;

use super::message::{Attributes, Message};
use super::socket::Rtnl;

/// What a bridge knows about one of its ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BridgePort {
    pub(crate) hairpin: bool,
    pub(crate) isolated: bool,
}

// <linux/if_link.h>, <linux/if_bridge.h>
const IFLA_PROTINFO: u16 = 12;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_BRPORT_MODE: u16 = 4;
const IFLA_BRPORT_ISOLATED: u16 = 33;
const IFLA_BRIDGE_VLAN_INFO: u16 = 2;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const BRIDGE_VLAN_INFO_PVID: u16 = 1 << 1;
const BRIDGE_VLAN_INFO_UNTAGGED: u16 = 1 << 2;

impl Rtnl {
    pub(crate) fn set_bridge_port(&mut self, index: u32, port: BridgePort) -> io::Result<()> {
        let message = Message::new(libc::RTM_SETLINK, 0).fixed(&header(index));
        self.0.request(message.nest(IFLA_PROTINFO, |info| {
            let info = info.attr_u8(IFLA_BRPORT_MODE, u8::from(port.hairpin));
            if port.isolated {
                info.attr_u8(IFLA_BRPORT_ISOLATED, 1)
            } else {
                info
            }
        }))
    }

    /// The settings of a port; `None` if the interface is no port of a bridge.
    pub(crate) fn bridge_port(&mut self, index: u32) -> io::Result<Option<BridgePort>> {
        let mut plain = [0; 16];
        plain[4..8].copy_from_slice(&index.to_ne_bytes());
        let message = Message::new(libc::RTM_GETLINK, 0).fixed(&plain);
        let (_, body) = self.0.query(message)?;
        let attributes = Attributes(body.get(16..).unwrap_or_default());
        let data = attributes
            .inner(libc::IFLA_LINKINFO)
            .inner(IFLA_INFO_SLAVE_DATA);
        let on = |kind| data.get(kind).map(|value| value.first() == Some(&1));
        Ok(on(IFLA_BRPORT_MODE).map(|hairpin| BridgePort {
            hairpin,
            isolated: on(IFLA_BRPORT_ISOLATED) == Some(true),
        }))
    }

    /// Puts a port into a VLAN, as its native one (untagged) or as one more.
    pub(crate) fn add_vlan(&mut self, index: u32, vlan: u16, native: bool) -> io::Result<()> {
        let flags = if native {
            BRIDGE_VLAN_INFO_PVID | BRIDGE_VLAN_INFO_UNTAGGED
        } else {
            0
        };
        self.vlan(libc::RTM_SETLINK, index, vlan, flags)
    }

    pub(crate) fn remove_vlan(&mut self, index: u32, vlan: u16) -> io::Result<()> {
        self.vlan(libc::RTM_DELLINK, index, vlan, 0)
    }

    fn vlan(&mut self, kind: u16, index: u32, vlan: u16, flags: u16) -> io::Result<()> {
        let mut info = [0; 4];
        info[..2].copy_from_slice(&flags.to_ne_bytes());
        info[2..].copy_from_slice(&vlan.to_ne_bytes());
        self.0.request(
            Message::new(kind, 0)
                .fixed(&header(index))
                .nest(IFLA_AF_SPEC, |spec| spec.attr(IFLA_BRIDGE_VLAN_INFO, &info)),
        )
    }
}

/// `struct ifinfomsg` of the bridge family.
fn header(index: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[0] = libc::AF_BRIDGE as u8;
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}
