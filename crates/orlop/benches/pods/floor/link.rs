//! Interfaces, addresses and routes by rtnetlink(7).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, sendto, socket_with};

/// Kinds of messages.
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

/// Flags: a request that is answered, and one that makes something new.
const ANSWERED: u16 = 0x1 | 0x4;
const CREATED: u16 = 0x200 | 0x400;

const IFF_UP: u32 = 1;
const AF_INET: u8 = 2;

/// The index that loopback has in every namespace.
const LOOPBACK: u32 = 1;
const ETH0: &str = "eth0";

const ADDRESS: [u8; 4] = [10, 99, 0, 2];
const GATEWAY: [u8; 4] = [10, 99, 0, 1];

/// A socket in the network namespace in which it was opened.
pub(super) struct Route {
    socket: OwnedFd,
}

impl Route {
    pub(super) fn open() -> io::Result<Self> {
        // Without a protocol it is NETLINK_ROUTE.
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        Ok(Self { socket })
    }

    /// Makes a bridge that is up, and returns its index.
    pub(super) fn make_bridge(&mut self, name: &str) -> io::Result<u32> {
        let kind = attribute(1, b"bridge");
        let parts = [named(name), attribute(18, &kind)].concat();
        self.ask(NEW_LINK, CREATED, &[&link(0), &parts])?;
        Ok(name_to_index(&self.socket, name)?)
    }

    /// Removes an interface.
    pub(super) fn remove(&mut self, index: u32) -> io::Result<()> {
        self.ask(DELETE_LINK, 0, &[&link(index)])
    }

    /// Makes a pair of interfaces, one a port of the bridge, the other one `eth0` of a namespace.
    pub(super) fn make_pair(&mut self, bridge: u32, namespace: &File) -> io::Result<()> {
        let far = namespace.as_raw_fd().to_ne_bytes();
        // The far end cannot be up before the near one is there.
        let peer = [vec![0; 16], named(ETH0), attribute(28, &far)].concat();
        let data = attribute(2, &attribute(1, &peer));
        let kind = attribute(18, &[attribute(1, b"veth"), data].concat());
        let parts = [attribute(10, &bridge.to_ne_bytes()), kind].concat();
        self.ask(NEW_LINK, CREATED, &[&link(0), &parts])
    }

    /// Brings loopback and `eth0` up, with an address and a default route.
    pub(super) fn configure(&mut self) -> io::Result<()> {
        self.ask(NEW_LINK, 0, &[&link(LOOPBACK)])?;
        let index = name_to_index(&self.socket, ETH0)?;
        self.ask(NEW_LINK, 0, &[&link(index)])?;
        let mut address = vec![AF_INET, 16, 0, 0];
        address.extend(index.to_ne_bytes());
        address.extend([attribute(2, &ADDRESS), attribute(1, &ADDRESS)].concat());
        self.ask(NEW_ADDRESS, CREATED, &[&address])?;
        // The main table, a static route, of the universe, unicast.
        let route = [AF_INET, 0, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let gateway = attribute(5, &GATEWAY);
        self.ask(NEW_ROUTE, CREATED, &[&route, &gateway])
    }

    fn ask(&mut self, kind: u16, flags: u16, parts: &[&[u8]]) -> io::Result<()> {
        let body = parts.concat();
        let mut message = Vec::with_capacity(16 + body.len());
        message.extend((16 + body.len() as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((ANSWERED | flags).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &message, SendFlags::empty(), &kernel)?;
        let mut answer = [0; 4096];
        recv(&self.socket, &mut answer, RecvFlags::empty())?;
        // The answer's code is a negative error number, or 0.
        match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        }
    }
}

/// An `ifinfomsg` of an interface that is to be up.
fn link(index: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(index.to_ne_bytes());
    bytes.extend(IFF_UP.to_ne_bytes());
    bytes.extend(IFF_UP.to_ne_bytes());
    bytes
}

fn named(name: &str) -> Vec<u8> {
    attribute(3, &[name.as_bytes(), &[0]].concat())
}

fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + payload.len());
    bytes.extend((4 + payload.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
