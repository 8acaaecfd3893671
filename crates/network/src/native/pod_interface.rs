//! The pod's end of an interface: its addresses, routes and state.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::call::Call;
use super::sysctl;
use crate::Cidr;
use crate::cni::{CniResult, Route};
use crate::error::NativeError;
use crate::netlink::{Probing, RouteEntry, RouteScope, Rtnl};
use crate::netns;

/// Timeout for IPv6 duplicate address detection.
const SETTLE: Duration = Duration::from_secs(10);

/// Options for the setup of an interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Whether IPv6 duplicate address detection runs for the pod's addresses.
    pub(super) probing: Probing,
    /// Whether gratuitous ARP announces the IPv4 addresses. All hosts on the network receive it.
    pub(super) announced: bool,
}

/// Sets up the pod's interface according to `result`, then runs `more` with it in the pod's namespace.
pub(super) fn configure(
    namespace: &File,
    call: &Call<'_>,
    result: &CniResult,
    how: How,
    more: impl FnOnce(&mut Rtnl, u32) -> io::Result<()> + Send,
) -> Result<(), NativeError> {
    let name = call.if_name;
    let work = || {
        let v6 = result.ips.iter().any(|ip| !ip.address.is_ipv4());
        let mut rtnl = Rtnl::open()?;
        let index = rtnl.index_of(name)?;
        if how.announced {
            sysctl::try_set(&format!("net/ipv4/conf/{name}/arp_notify"), "1");
        }
        if v6 {
            probe(name, how.probing)?;
        } else {
            // On a network without IPv6, each duplicate detection and router solicitation would reach all its pods.
            // The cost would grow with their number.
            let _ = rtnl.make_no_address(index);
        }
        let addresses: Vec<Cidr> = result.ips.iter().map(|ip| ip.address).collect();
        rtnl.bring_up(index, &addresses, how.probing)?;
        if v6 && how.probing == Probing::On {
            settle(&mut rtnl, index)?;
        }
        for route in &result.routes {
            let entry = entry(route, result, index);
            match rtnl.add_route(&entry) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                done => done.map_err(|error| named(error, &format!("route {}", route.dst)))?,
            }
        }
        more(&mut rtnl, index)
    };
    netns::inside(namespace.as_fd(), work).map_err(NativeError::system(format!(
        "set up the pod's interface {name}"
    )))
}

/// Configures duplicate address detection on an interface, and enables IPv6 on it.
fn probe(name: &str, probing: Probing) -> io::Result<()> {
    match probing {
        Probing::On => {
            sysctl::try_set(&format!("net/ipv6/conf/{name}/enhanced_dad"), "1");
            sysctl::try_set(&format!("net/ipv6/conf/{name}/accept_dad"), "1");
        }
        Probing::Off => {
            sysctl::try_set(&format!("net/ipv6/conf/{name}/accept_dad"), "0");
        }
    }
    sysctl::set(&format!("net/ipv6/conf/{name}/disable_ipv6"), "0")
}

/// Verifies that the pod's interface still matches `result`.
pub(super) fn verify(
    namespace: &File,
    call: &Call<'_>,
    result: &CniResult,
) -> Result<(), NativeError> {
    let name = call.if_name;
    let look = || {
        let mut rtnl = Rtnl::open()?;
        let Some(link) = rtnl.link_by_name(name)? else {
            return Ok(None);
        };
        let addresses = rtnl.addresses(link.index)?;
        let mut routes = rtnl.routes(true)?;
        routes.extend(rtnl.routes(false)?);
        Ok(Some((link, addresses, routes)))
    };
    let found = netns::inside(namespace.as_fd(), look).map_err(NativeError::system(format!(
        "inspect the pod's interface {name}"
    )))?;
    let missing = |what: String| Err(NativeError::Check(what));
    let Some((link, addresses, routes)) = found else {
        return missing(format!("expected interface {name} not found"));
    };
    if link.kind != "veth" {
        return missing(format!("interface {name} is not of type veth"));
    }
    let listed = result
        .interfaces
        .iter()
        .find(|i| i.name == name && !i.sandbox.is_empty());
    if let Some(interface) = listed
        && !interface.mac.is_empty()
        && interface.mac != link.mac_text()
    {
        return missing(format!(
            "interface {name} mac {} does not match previous mac {}",
            link.mac_text(),
            interface.mac
        ));
    }
    for ip in &result.ips {
        if !addresses
            .iter()
            .any(|address| address.address == ip.address)
        {
            return missing(format!(
                "failed to match addr {} on interface {name}",
                ip.address
            ));
        }
    }
    for route in &result.routes {
        let wanted = entry(route, result, link.index);
        let there = routes.iter().any(|found| {
            found.dst == wanted.dst
                && found.interface == wanted.interface
                && (wanted.gateway.is_none() || found.gateway == wanted.gateway)
        });
        if !there {
            return missing(format!(
                "expected route {} not found on interface {name}",
                route.dst
            ));
        }
    }
    Ok(())
}

/// Converts a result's route for the kernel. A route without a gateway uses the gateway of the address of its family.
fn entry(route: &Route, result: &CniResult, interface: u32) -> RouteEntry {
    let v4 = route.dst.is_ipv4();
    let own = || {
        result
            .ips
            .iter()
            .filter(|ip| ip.address.is_ipv4() == v4)
            .find_map(|ip| ip.gateway)
    };
    let gateway: Option<IpAddr> = route.gw.or_else(own);
    let scope = match route.scope {
        Some(number) => RouteScope::Other(number as u8),
        None => RouteScope::Universe,
    };
    let mut entry = RouteEntry::new(route.dst, interface, scope);
    entry.gateway = gateway;
    entry.priority = route.priority;
    entry.table = route.table;
    entry.mtu = route.mtu;
    entry.advmss = route.advmss;
    entry
}

fn settle(rtnl: &mut Rtnl, index: u32) -> io::Result<()> {
    let deadline = Instant::now() + SETTLE;
    loop {
        let addresses = rtnl.addresses(index)?;
        if let Some(address) = addresses.iter().find(|address| address.is_duplicate()) {
            let text = format!("the address {} is in use on the network", address.address);
            return Err(io::Error::other(text));
        }
        if !addresses
            .iter()
            .any(|a| a.is_tentative() && !a.is_link_local())
        {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn named(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
