//! Routes.

use std::io;
use std::net::IpAddr;

use super::address::{address_of, family};
use super::message::{Attributes, Message};
use super::socket::Rtnl;
use crate::Cidr;
use crate::cidr::octets;

/// A route to create, or one that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RouteEntry {
    pub(crate) dst: Cidr,
    pub(crate) interface: u32,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) source: Option<IpAddr>,
    pub(crate) scope: RouteScope,
    pub(crate) priority: Option<u32>,
    pub(crate) table: Option<u32>,
    pub(crate) mtu: Option<u32>,
    pub(crate) advmss: Option<u32>,
}

/// The scope of a route: the distance of its destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteScope {
    /// Anywhere.
    Universe,
    /// On the link.
    Link,
    /// Another scope by its number (results may contain any).
    Other(u8),
}

const RT_TABLE_MAIN: u32 = 254;
const RTAX_MTU: u16 = 2;
const RTAX_ADVMSS: u16 = 8;

impl RouteScope {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Universe => libc::RT_SCOPE_UNIVERSE,
            Self::Link => libc::RT_SCOPE_LINK,
            Self::Other(number) => number,
        }
    }
}

impl RouteEntry {
    pub(crate) fn new(dst: Cidr, interface: u32, scope: RouteScope) -> Self {
        Self {
            dst: dst.network(),
            interface,
            gateway: None,
            source: None,
            scope,
            priority: None,
            table: None,
            mtu: None,
            advmss: None,
        }
    }

    pub(crate) fn via(mut self, gateway: IpAddr) -> Self {
        self.gateway = Some(gateway);
        self
    }

    pub(crate) fn from(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    fn message(&self, kind: u16, flags: i32, protocol: u8) -> Message {
        let table = self.table.unwrap_or(RT_TABLE_MAIN);
        // `struct rtmsg`; a table above 255 only fits into the attribute.
        let header = [
            family(self.dst.address()),
            self.dst.prefix(),
            0,
            0,
            u8::try_from(table).unwrap_or(0),
            protocol,
            self.scope.number(),
            if protocol == 0 { 0 } else { libc::RTN_UNICAST },
            0,
            0,
            0,
            0,
        ];
        let mut message = Message::new(kind, flags).fixed(&header);
        message = message.attr(libc::RTA_DST, &octets(self.dst.address()));
        if let Some(gateway) = self.gateway {
            message = message.attr(libc::RTA_GATEWAY, &octets(gateway));
        }
        if let Some(source) = self.source {
            message = message.attr(libc::RTA_PREFSRC, &octets(source));
        }
        message = message.attr_u32(libc::RTA_OIF, self.interface);
        message = message.attr_u32(libc::RTA_TABLE, table);
        if let Some(priority) = self.priority {
            message = message.attr_u32(libc::RTA_PRIORITY, priority);
        }
        if self.mtu.is_none() && self.advmss.is_none() {
            return message;
        }
        message.nest(libc::RTA_METRICS, |mut metrics| {
            if let Some(mtu) = self.mtu {
                metrics = metrics.attr_u32(RTAX_MTU, mtu);
            }
            if let Some(advmss) = self.advmss {
                metrics = metrics.attr_u32(RTAX_ADVMSS, advmss);
            }
            metrics
        })
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let header = body.get(..12)?;
        let attributes = Attributes(body.get(12..)?);
        let any: IpAddr = if i32::from(header[0]) == libc::AF_INET {
            IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)
        };
        let dst = attributes
            .get(libc::RTA_DST)
            .and_then(address_of)
            .unwrap_or(any);
        Some(Self {
            dst: Cidr::new(dst, header[1])?,
            interface: attributes.u32(libc::RTA_OIF)?,
            gateway: attributes.get(libc::RTA_GATEWAY).and_then(address_of),
            source: attributes.get(libc::RTA_PREFSRC).and_then(address_of),
            scope: match header[6] {
                libc::RT_SCOPE_UNIVERSE => RouteScope::Universe,
                libc::RT_SCOPE_LINK => RouteScope::Link,
                other => RouteScope::Other(other),
            },
            priority: attributes.u32(libc::RTA_PRIORITY),
            table: attributes.u32(libc::RTA_TABLE),
            mtu: attributes.inner(libc::RTA_METRICS).u32(RTAX_MTU),
            advmss: attributes.inner(libc::RTA_METRICS).u32(RTAX_ADVMSS),
        })
    }
}

impl Rtnl {
    /// Adds a route; fails if it already exists.
    pub(crate) fn add_route(&mut self, route: &RouteEntry) -> io::Result<()> {
        self.0.request(new_route(route))
    }

    pub(crate) fn delete_route(&mut self, route: &RouteEntry) -> io::Result<()> {
        self.0.request(route.message(libc::RTM_DELROUTE, 0, 0))
    }

    /// Lists the routes of one family in any table.
    pub(crate) fn routes(&mut self, v4: bool) -> io::Result<Vec<RouteEntry>> {
        let mut header = [0; 12];
        header[0] = (if v4 { libc::AF_INET } else { libc::AF_INET6 }) as u8;
        let replies = self
            .0
            .dump(Message::new(libc::RTM_GETROUTE, 0).fixed(&header))?;
        Ok(replies
            .iter()
            .filter_map(|(_, body)| RouteEntry::parse(body))
            .collect())
    }

    /// Returns the interface through which packets to `destination` would leave.
    pub(crate) fn route_to(&mut self, destination: IpAddr) -> io::Result<Option<u32>> {
        let mut header = [0; 12];
        header[0] = family(destination);
        header[1] = Cidr::host(destination).prefix();
        let message = Message::new(libc::RTM_GETROUTE, 0)
            .fixed(&header)
            .attr(libc::RTA_DST, &octets(destination));
        match self.0.query(message) {
            Ok((_, body)) => Ok(RouteEntry::parse(&body).map(|route| route.interface)),
            Err(error) if error.raw_os_error() == Some(libc::ENETUNREACH) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Builds a request to add a route, to be sent with others.
pub(crate) fn new_route(route: &RouteEntry) -> Message {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    route.message(libc::RTM_NEWROUTE, flags, libc::RTPROT_BOOT)
}
