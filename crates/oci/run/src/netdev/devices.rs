//! Moves network devices into a container with their addresses and brings them up. They are moved back if the container
//! cannot be created; otherwise the kernel handles them when the namespace ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use orlop_oci_types::NetDevice;
use rustix::io::{Errno, Result as Answer};

use super::message::{Message, attribute, number};
use super::socket::Socket;
use crate::error::{Error, Result, While};
use crate::sys::enter_namespaces;

/// Devices in the network namespace of a container that is being created.
#[derive(Debug)]
pub(crate) struct Devices {
    there: Socket,
    home: OwnedFd,
    moved: Vec<Moved>,
}

#[derive(Debug)]
struct Moved {
    /// The name in the original namespace.
    name: String,
    was_up: bool,
    /// The index in the container's namespace.
    index: u32,
    addresses: Vec<Address>,
}

/// An address that moves with its device.
#[derive(Debug)]
struct Address {
    family: u8,
    prefix: u8,
    flags: u32,
    /// As received from the kernel.
    attributes: Vec<(u16, Vec<u8>)>,
}

/// The destination of a device.
#[derive(Clone, Copy, Debug)]
struct To<'a> {
    namespace: BorrowedFd<'a>,
    name: &'a str,
}

impl Devices {
    /// Moves devices of this namespace into that of `process`.
    pub(crate) fn of(wanted: &BTreeMap<String, NetDevice>, process: i32) -> Result<Self> {
        let section = || "linux.netDevices".to_owned();
        let open = |path: String| File::open(&path).doing(|| format!("{}: {path}", section()));
        let home = OwnedFd::from(open("/proc/self/ns/net".to_owned())?);
        let namespace = OwnedFd::from(open(format!("/proc/{process}/ns/net"))?);
        if is_same(&home, &namespace).doing(section)? {
            return Err(Error::new(
                "linux.netDevices: the container uses the runtime's network namespace, so no device can be moved",
            ));
        }
        let mut here = Socket::open().doing(section)?;
        let there = socket_in(&namespace, &home).doing(section)?;
        let mut devices = Self {
            there,
            home,
            moved: Vec::new(),
        };
        for (name, device) in wanted {
            let to = To {
                namespace: namespace.as_fd(),
                name: if device.name.is_empty() {
                    name
                } else {
                    &device.name
                },
            };
            if let Err(error) = devices.take(&mut here, name, to) {
                devices.give_back();
                return Err(error.within(format!("linux.netDevices[{name:?}]")));
            }
        }
        Ok(devices)
    }

    fn take(&mut self, here: &mut Socket, name: &str, to: To<'_>) -> Result<()> {
        let link = find(here, name).doing(|| "link not found on runtime namespace".to_owned())?;
        // The kernel removes addresses when the device goes down.
        let addresses =
            addresses(here, link.index).doing(|| "fail to get ip addresses".to_owned())?;
        let has_namesake = find(&mut self.there, name).is_ok();
        let sent = send(here, link.index, to).and_then(|sent| match sent {
            Some(index) => Ok(index),
            None => find(&mut self.there, to.name).map(|it| it.index),
        });
        let index = match sent {
            Ok(index) => Some(index),
            // The kernel moves first and renames after that: a name in use stops it halfway.
            Err(_) if has_namesake || find(here, name).is_ok() => None,
            Err(_) => find(&mut self.there, name).ok().map(|it| it.index),
        };
        if let Some(index) = index {
            self.moved.push(Moved {
                name: name.to_owned(),
                was_up: link.is_up,
                index,
                addresses,
            });
        }
        let index = sent.doing(|| {
            format!(
                "fail to move the device to the container's network namespace as {:?}",
                to.name
            )
        })?;
        let moved = self.moved.last();
        let addresses = moved.map_or(&[][..], |moved| &moved.addresses);
        give_addresses(&mut self.there, index, addresses)
            .doing(|| "fail to set up the addresses of the device".to_owned())?;
        set_up(&mut self.there, index).doing(|| "fail to set up the device".to_owned())
    }

    /// Moves the devices back, as far as possible.
    pub(crate) fn give_back(mut self) {
        let Ok(mut here) = Socket::open() else {
            return;
        };
        for device in self.moved.iter().rev() {
            let to = To {
                namespace: self.home.as_fd(),
                name: &device.name,
            };
            let _ = send(&mut self.there, device.index, to);
            if let Ok(link) = find(&mut here, &device.name) {
                let _ = give_addresses(&mut here, link.index, &device.addresses);
                if device.was_up {
                    let _ = set_up(&mut here, link.index);
                }
            }
        }
    }
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> Answer<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Opens a socket in another namespace by entering it, which a single-threaded process may do.
fn socket_in(namespace: &OwnedFd, home: &OwnedFd) -> Answer<Socket> {
    let kind = libc::CLONE_NEWNET as u64;
    enter_namespaces(namespace.as_fd(), kind)?;
    let socket = Socket::open();
    enter_namespaces(home.as_fd(), kind)?;
    socket
}

/// Moves a device and renames it. If the name is a template, returns the new index.
fn send(from: &mut Socket, index: u32, to: To<'_>) -> Answer<Option<u32>> {
    /// `IFLA_NEW_IFINDEX`.
    const NEW_INDEX: u16 = 49;
    let message = || {
        let fd = to.namespace.as_raw_fd().to_ne_bytes();
        link(libc::RTM_NEWLINK, index, 0)
            .with_text(libc::IFLA_IFNAME, to.name)
            .with(libc::IFLA_NET_NS_FD, &fd)
    };
    if !to.name.contains('%') {
        return from.ask(message()).map(|_| None);
    }
    // Only the kernel knows the new name then.
    let mut new = index;
    loop {
        match from.ask(message().with(NEW_INDEX, &new.to_ne_bytes())) {
            Err(Errno::BUSY) if new < index.saturating_add(4096) => new += 1,
            done => return done.map(|_| Some(new)),
        }
    }
}

/// A device.
struct Link {
    index: u32,
    is_up: bool,
}

fn find(socket: &mut Socket, name: &str) -> Answer<Link> {
    let message = link(libc::RTM_GETLINK, 0, 0).with_text(libc::IFLA_IFNAME, name);
    let told = socket.ask(message)?;
    // `struct ifinfomsg`.
    let told = told.first().ok_or(Errno::NODEV)?;
    let index = number(told, 4).ok_or(Errno::BADMSG)?;
    let flags = number(told, 8).ok_or(Errno::BADMSG)?;
    let is_up = flags & libc::IFF_UP as u32 != 0;
    Ok(Link { index, is_up })
}

fn set_up(socket: &mut Socket, index: u32) -> Answer<()> {
    let message = link(libc::RTM_NEWLINK, index, libc::IFF_UP as u32);
    socket.ask(message).map(drop)
}

/// Returns a message about a link, with flags to set.
fn link(kind: u16, index: u32, flags: u32) -> Message {
    // `struct ifinfomsg`.
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..16].copy_from_slice(&flags.to_ne_bytes());
    Message::new(kind, libc::NLM_F_ACK, &fixed)
}

/// `IFA_FLAGS`.
const FLAGS: u16 = 8;
/// `IFA_RT_PRIORITY`.
const PRIORITY: u16 = 9;

/// Returns the addresses that the specification moves: permanent ones of global scope.
fn addresses(socket: &mut Socket, index: u32) -> Answer<Vec<Address>> {
    /// `RT_SCOPE_UNIVERSE` of `rtnetlink(7)`.
    const GLOBAL: u8 = 0;
    let message = Message::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; 8]);
    let told = socket.ask(message)?;
    let one = |body: &Vec<u8>| {
        // `struct ifaddrmsg`.
        let (fixed, attributes) = body.split_at_checked(8)?;
        let flags = attribute(attributes, FLAGS)
            .and_then(|flags| number(flags, 0))
            .unwrap_or_else(|| fixed[2].into());
        let goes =
            number(fixed, 4)? == index && fixed[3] == GLOBAL && flags & libc::IFA_F_PERMANENT != 0;
        let kept = [
            libc::IFA_ADDRESS,
            libc::IFA_LOCAL,
            libc::IFA_BROADCAST,
            PRIORITY,
        ];
        let kept = kept.into_iter();
        goes.then(|| Address {
            family: fixed[0],
            prefix: fixed[1],
            flags: flags & (libc::IFA_F_NODAD | libc::IFA_F_NOPREFIXROUTE),
            attributes: kept
                .filter_map(|kind| Some((kind, attribute(attributes, kind)?.to_vec())))
                .collect(),
        })
    };
    Ok(told.iter().filter_map(one).collect())
}

fn give_addresses(socket: &mut Socket, index: u32, addresses: &[Address]) -> Answer<()> {
    for address in addresses {
        let mut fixed = [0; 8];
        (fixed[0], fixed[1]) = (address.family, address.prefix);
        fixed[4..].copy_from_slice(&index.to_ne_bytes());
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let message = Message::new(libc::RTM_NEWADDR, flags, &fixed)
            .with(FLAGS, &address.flags.to_ne_bytes());
        let message = address
            .attributes
            .iter()
            .fold(message, |message, (kind, value)| message.with(*kind, value));
        match socket.ask(message) {
            // An address that was not removed.
            Ok(_) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
