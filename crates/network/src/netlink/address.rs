//! Addresses of interfaces.

use std::io;
use std::net::IpAddr;

use super::message::{Attributes, Message};
use super::socket::Rtnl;
use crate::Cidr;
use crate::cidr::octets;

/// An address as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkAddress {
    pub(crate) index: u32,
    pub(crate) address: Cidr,
    flags: u32,
    scope: u8,
}

/// Whether IPv6 duplicate address detection runs before an address is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probing {
    On,
    Off,
}

// <linux/if_addr.h>
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u32 = 0x02;
const IFA_F_TENTATIVE: u32 = 0x40;
const IFA_F_DADFAILED: u32 = 0x08;

impl LinkAddress {
    /// Reports whether IPv6 duplicate address detection still runs.
    pub(crate) fn is_tentative(&self) -> bool {
        self.flags & IFA_F_TENTATIVE != 0
    }

    /// Reports whether IPv6 found a duplicate of the address.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.flags & IFA_F_DADFAILED != 0
    }

    /// Reports whether the kernel assigned the address itself (`fe80::`…).
    pub(crate) fn is_link_local(&self) -> bool {
        // RT_SCOPE_LINK
        self.scope == 253
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let prefix = *body.get(1)?;
        let index = u32::from_ne_bytes(body.get(4..8)?.try_into().ok()?);
        let attributes = Attributes(body.get(8..)?);
        let bytes = attributes
            .get(libc::IFA_LOCAL)
            .or_else(|| attributes.get(libc::IFA_ADDRESS))?;
        let flags = attributes
            .u32(IFA_FLAGS)
            .unwrap_or_else(|| u32::from(body[2]));
        Some(Self {
            index,
            address: Cidr::new(address_of(bytes)?, prefix)?,
            flags,
            scope: *body.get(3)?,
        })
    }
}

impl Rtnl {
    /// Lists the addresses of an interface.
    pub(crate) fn addresses(&mut self, index: u32) -> io::Result<Vec<LinkAddress>> {
        let mut wanted = [0; 8];
        if self.0.be_strict() {
            wanted[4..].copy_from_slice(&index.to_ne_bytes());
        }
        let message = Message::new(libc::RTM_GETADDR, 0).fixed(&wanted);
        let replies = self.0.dump(message)?;
        let all = replies
            .iter()
            .filter_map(|(_, body)| LinkAddress::parse(body));
        Ok(all.filter(|address| address.index == index).collect())
    }

    /// Brings an interface up with addresses, in one call.
    pub(crate) fn bring_up(
        &mut self,
        index: u32,
        addresses: &[Cidr],
        probing: Probing,
    ) -> io::Result<()> {
        let up = super::link::up_request(index);
        let addresses = addresses
            .iter()
            .map(|address| new_address(index, *address, probing));
        self.0.request_all(std::iter::once(up).chain(addresses))
    }

    /// Adds an address for immediate use.
    pub(crate) fn add_address(&mut self, index: u32, address: Cidr) -> io::Result<()> {
        self.0.request(new_address(index, address, Probing::Off))
    }

    pub(crate) fn delete_address(&mut self, index: u32, address: Cidr) -> io::Result<()> {
        self.0.request(
            Message::new(libc::RTM_DELADDR, 0)
                .fixed(&header(index, address))
                .attr(libc::IFA_LOCAL, &octets(address.address()))
                .attr(libc::IFA_ADDRESS, &octets(address.address())),
        )
    }
}

/// Builds a request to add an address, to be sent with others.
fn new_address(index: u32, address: Cidr, probing: Probing) -> Message {
    let bytes = octets(address.address());
    let message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
        .fixed(&header(index, address))
        .attr(libc::IFA_LOCAL, &bytes)
        .attr(libc::IFA_ADDRESS, &bytes);
    if !address.is_ipv4() && probing == Probing::Off {
        return message.attr_u32(IFA_FLAGS, IFA_F_NODAD);
    }
    // A /31 or /32 has no broadcast address.
    if address.is_ipv4() && address.prefix() < 31 {
        return message.attr(libc::IFA_BROADCAST, &octets(address.last()));
    }
    message
}

/// Converts bytes to an address.
pub(crate) fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(Into::into)
}

/// Returns the number of the address family.
pub(crate) fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    }) as u8
}

/// Builds `struct ifaddrmsg`.
fn header(index: u32, address: Cidr) -> [u8; 8] {
    let mut header = [0; 8];
    header[0] = family(address.address());
    header[1] = address.prefix();
    header[4..].copy_from_slice(&index.to_ne_bytes());
    header
}
