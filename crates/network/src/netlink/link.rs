//! Network interfaces.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::message::{Attributes, Message};
use super::socket::Rtnl;
use crate::MacAddress;

/// An interface as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mac: Option<MacAddress>,
    pub(crate) mtu: u32,
    pub(crate) flags: u32,
    pub(crate) tx_queue: u32,
    pub(crate) master: Option<u32>,
    /// `bridge`, `veth`, …; empty for hardware interfaces.
    pub(crate) kind: String,
    /// The index of a veth's other end.
    pub(crate) peer: Option<u32>,
    /// Whether a bridge filters by VLAN tags.
    pub(crate) vlan_filtering: bool,
    carrier: bool,
}

/// The settings of a new bridge.
#[derive(Debug)]
pub(crate) struct NewBridge<'a> {
    pub(crate) name: &'a str,
    pub(crate) mac: MacAddress,
    pub(crate) mtu: Option<u32>,
    /// Whether it filters by VLAN tags.
    pub(crate) vlan_filtering: bool,
}

/// The settings of a new veth pair: one end here, the other in another namespace.
#[derive(Debug)]
pub(crate) struct NewVeth<'a> {
    pub(crate) host_name: &'a str,
    pub(crate) host_mac: MacAddress,
    pub(crate) master: Option<u32>,
    pub(crate) peer_name: &'a str,
    pub(crate) peer_mac: MacAddress,
    pub(crate) peer_netns: BorrowedFd<'a>,
    pub(crate) mtu: Option<u32>,
}

// <linux/if_link.h>, <linux/veth.h>; not all of them are in libc.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_BR_VLAN_FILTERING: u16 = 7;
const IFLA_CARRIER: u16 = 33;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;

const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;

impl Link {
    pub(crate) fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }

    /// Reports whether the interface and the link that it is connected to are up.
    pub(crate) fn has_carrier(&self) -> bool {
        self.is_up() && self.carrier
    }

    pub(crate) fn is_promiscuous(&self) -> bool {
        self.flags & libc::IFF_PROMISC as u32 != 0
    }

    pub(crate) fn mac_text(&self) -> String {
        self.mac.map(|mac| mac.to_string()).unwrap_or_default()
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let index = u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?);
        let flags = u32::from_ne_bytes(body.get(8..12)?.try_into().ok()?);
        let attributes = Attributes(body.get(16..)?);
        let mac = attributes
            .get(libc::IFLA_ADDRESS)
            .and_then(|bytes| bytes.try_into().ok());
        let info = attributes.inner(libc::IFLA_LINKINFO);
        let kind = info.text(IFLA_INFO_KIND).unwrap_or_default();
        let filtering = info.inner(IFLA_INFO_DATA).get(IFLA_BR_VLAN_FILTERING);
        Some(Self {
            index,
            flags,
            name: attributes.text(libc::IFLA_IFNAME)?.to_owned(),
            mac: mac.map(MacAddress),
            mtu: attributes.u32(libc::IFLA_MTU).unwrap_or(0),
            tx_queue: attributes.u32(libc::IFLA_TXQLEN).unwrap_or(0),
            master: attributes.u32(libc::IFLA_MASTER),
            peer: attributes.u32(libc::IFLA_LINK),
            kind: kind.to_owned(),
            vlan_filtering: kind == "bridge" && filtering == Some(&[1]),
            carrier: attributes.get(IFLA_CARRIER).and_then(<[u8]>::first) == Some(&1),
        })
    }
}

impl Rtnl {
    pub(crate) fn link_by_name(&mut self, name: &str) -> io::Result<Option<Link>> {
        self.link(0, |message| message.attr_str(libc::IFLA_IFNAME, name))
    }

    pub(crate) fn link_by_index(&mut self, index: u32) -> io::Result<Option<Link>> {
        self.link(index, |message| message)
    }

    pub(crate) fn create_bridge(&mut self, bridge: &NewBridge<'_>) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWLINK, CREATE)
            .fixed(&header(0, 0, 0))
            .attr_str(libc::IFLA_IFNAME, bridge.name)
            .attr(libc::IFLA_ADDRESS, &bridge.mac.0);
        if let Some(mtu) = bridge.mtu {
            message = message.attr_u32(libc::IFLA_MTU, mtu);
        }
        self.0.request(message.nest(libc::IFLA_LINKINFO, |info| {
            let info = info.attr_str(IFLA_INFO_KIND, "bridge");
            if bridge.vlan_filtering {
                info.nest(IFLA_INFO_DATA, |data| {
                    data.attr_u8(IFLA_BR_VLAN_FILTERING, 1)
                })
            } else {
                info
            }
        }))
    }

    /// Creates both ends at once, and returns the near end's index. The near end is up if it is the port of a bridge.
    /// The far end stays down: the kernel would refuse to bring it up before the pair is connected.
    pub(crate) fn create_veth(&mut self, veth: &NewVeth<'_>) -> io::Result<u32> {
        let flags = veth.master.map_or(0, |_| libc::IFF_UP as u32);
        let message = Message::new(libc::RTM_NEWLINK, CREATE)
            .fixed(&header(0, flags, flags))
            .attr_str(libc::IFLA_IFNAME, veth.host_name)
            .attr(libc::IFLA_ADDRESS, &veth.host_mac.0);
        let mut message = one_queue(message);
        if let Some(mtu) = veth.mtu {
            message = message.attr_u32(libc::IFLA_MTU, mtu);
        }
        if let Some(master) = veth.master {
            message = message.attr_u32(libc::IFLA_MASTER, master);
        }
        let fill_peer = |peer: Message| {
            let peer = peer
                .attr_str(libc::IFLA_IFNAME, veth.peer_name)
                .attr(libc::IFLA_ADDRESS, &veth.peer_mac.0)
                .attr_u32(libc::IFLA_NET_NS_FD, veth.peer_netns.as_raw_fd() as u32);
            let peer = one_queue(peer);
            match veth.mtu {
                Some(mtu) => peer.attr_u32(libc::IFLA_MTU, mtu),
                None => peer,
            }
        };
        self.0.request(message.nest(libc::IFLA_LINKINFO, |info| {
            info.attr_str(IFLA_INFO_KIND, "veth")
                .nest(IFLA_INFO_DATA, |data| {
                    data.nest_after(VETH_INFO_PEER, &header(0, 0, 0), fill_peer)
                })
        }))?;
        self.index_of(veth.host_name)
    }

    /// Returns the index of the interface with this name. Unlike all netlink requests, this call does not wait for
    /// concurrent changes of interfaces.
    pub(crate) fn index_of(&mut self, name: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.0, name)?)
    }

    /// Brings an interface up, as a port of a bridge if `master` is set.
    pub(crate) fn connect(&mut self, index: u32, master: Option<u32>) -> io::Result<()> {
        let message = up_request(index);
        self.0.request(match master {
            Some(master) => message.attr_u32(libc::IFLA_MASTER, master),
            None => message,
        })
    }

    /// Disables automatic IPv6 addresses on an interface, which avoids duplicate detection and router solicitations.
    /// A kernel without IPv6 refuses that.
    pub(crate) fn make_no_address(&mut self, index: u32) -> io::Result<()> {
        self.set(index, |message| {
            message.nest(IFLA_AF_SPEC, |families| {
                families.nest(libc::AF_INET6 as u16, |v6| {
                    v6.attr_u8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE)
                })
            })
        })
    }

    /// Creates an interface of a kind that needs no settings.
    pub(crate) fn create_plain(&mut self, name: &str, kind: &str, mtu: u32) -> io::Result<()> {
        let up = libc::IFF_UP as u32;
        self.0.request(
            Message::new(libc::RTM_NEWLINK, CREATE)
                .fixed(&header(0, up, up))
                .attr_str(libc::IFLA_IFNAME, name)
                .attr_u32(libc::IFLA_MTU, mtu)
                .nest(libc::IFLA_LINKINFO, |info| {
                    info.attr_str(IFLA_INFO_KIND, kind)
                }),
        )
    }

    pub(crate) fn set_up(&mut self, index: u32) -> io::Result<()> {
        self.set_flags(index, libc::IFF_UP, true)
    }

    pub(crate) fn set_flags(&mut self, index: u32, flags: i32, on: bool) -> io::Result<()> {
        let value = if on { flags as u32 } else { 0 };
        self.0
            .request(Message::new(libc::RTM_NEWLINK, 0).fixed(&header(index, value, flags as u32)))
    }

    pub(crate) fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        self.set(index, |message| message.attr_u32(libc::IFLA_MTU, mtu))
    }

    pub(crate) fn set_mac(&mut self, index: u32, mac: MacAddress) -> io::Result<()> {
        self.set(index, |message| message.attr(libc::IFLA_ADDRESS, &mac.0))
    }

    pub(crate) fn set_tx_queue(&mut self, index: u32, length: u32) -> io::Result<()> {
        self.set(index, |message| message.attr_u32(libc::IFLA_TXQLEN, length))
    }

    /// Deletes an interface; a missing one is not an error.
    pub(crate) fn delete_link(&mut self, index: u32) -> io::Result<()> {
        let message = Message::new(libc::RTM_DELLINK, 0).fixed(&header(index, 0, 0));
        match self.0.request(message) {
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            done => done,
        }
    }

    fn set(&mut self, index: u32, fill: impl FnOnce(Message) -> Message) -> io::Result<()> {
        self.0.request(fill(
            Message::new(libc::RTM_NEWLINK, 0).fixed(&header(index, 0, 0)),
        ))
    }

    fn link(
        &mut self,
        index: u32,
        fill: impl FnOnce(Message) -> Message,
    ) -> io::Result<Option<Link>> {
        let message = fill(Message::new(libc::RTM_GETLINK, 0).fixed(&header(index, 0, 0)));
        match self.0.query(message) {
            Ok((_, body)) => Ok(Link::parse(&body)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Builds a request to bring an interface up, to be sent with others.
pub(super) fn up_request(index: u32) -> Message {
    let up = libc::IFF_UP as u32;
    Message::new(libc::RTM_NEWLINK, 0).fixed(&header(index, up, up))
}

/// Requests one queue per direction. By default a veth gets a queue per processor but uses only one, and for each end
/// the kernel waits until no processor can access the others.
fn one_queue(message: Message) -> Message {
    let message = message.attr_u32(libc::IFLA_NUM_TX_QUEUES, 1);
    message.attr_u32(libc::IFLA_NUM_RX_QUEUES, 1)
}

/// Builds `struct ifinfomsg`.
fn header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&change.to_ne_bytes());
    header
}
