//! Settings of bridge ports: hairpin, isolation.

use std::io;

use super::message::Message;
use super::socket::Rtnl;

/// The settings of a bridge's port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BridgePort {
    pub(crate) hairpin: bool,
    pub(crate) isolated: bool,
}

// <linux/if_link.h>, <linux/if_bridge.h>
const IFLA_PROTINFO: u16 = 12;
const IFLA_BRPORT_MODE: u16 = 4;
const IFLA_BRPORT_ISOLATED: u16 = 33;

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
}

/// Builds `struct ifinfomsg` of the bridge family.
pub(super) fn header(index: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[0] = libc::AF_BRIDGE as u8;
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}
