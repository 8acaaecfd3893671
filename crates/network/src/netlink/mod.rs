//! Netlink sockets and messages. The few messages that are needed are simpler by hand than with a library for all of
//! them.

mod address;
mod bridge_port;
mod bridge_vlan;
mod conntrack;
mod link;
mod message;
mod route;
mod socket;
mod strict;
mod traffic;

pub(crate) use address::Probing;
pub(crate) use bridge_port::BridgePort;
pub(crate) use bridge_vlan::{PortVlan, VlanId};
pub(crate) use link::{Link, NewBridge, NewVeth};
pub(crate) use message::{Attributes, Message};
pub(crate) use route::{RouteEntry, RouteScope};
pub(crate) use socket::{Protocol, Rtnl, Socket};
pub(crate) use traffic::TokenBucket;
