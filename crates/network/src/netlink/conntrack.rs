//! Connections in the kernel's tracking table.

use std::io;
use std::net::IpAddr;

use super::address::address_of;
use super::message::{Attributes, Message};
use super::socket::Socket;

// <linux/netfilter/nfnetlink_conntrack.h>
const NFNL_SUBSYS_CTNETLINK: u16 = 1;
const IPCTNL_MSG_CT_GET: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_DST_PORT: u16 = 3;
const NESTED: u16 = 0x8000;

impl Socket {
    /// Removes the UDP "connections" of a family whose original destination port (and address) satisfies `is_stale`.
    pub(crate) fn forget_udp(
        &mut self,
        family: u8,
        is_stale: impl Fn(IpAddr, u16) -> bool,
    ) -> io::Result<()> {
        let all = self.dump(message(family, IPCTNL_MSG_CT_GET))?;
        for (_, body) in &all {
            let Some(tuple) = Attributes(body.get(4..).unwrap_or_default()).get(CTA_TUPLE_ORIG)
            else {
                continue;
            };
            if !udp_destination(tuple).is_some_and(|(address, port)| is_stale(address, port)) {
                continue;
            }
            let delete = message(family, IPCTNL_MSG_CT_DELETE).attr(CTA_TUPLE_ORIG | NESTED, tuple);
            match self.request(delete) {
                // The connection ended in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        Ok(())
    }
}

fn udp_destination(tuple: &[u8]) -> Option<(IpAddr, u16)> {
    let tuple = Attributes(tuple);
    let protocol = tuple.inner(CTA_TUPLE_PROTO);
    if protocol.get(CTA_PROTO_NUM)?.first() != Some(&(libc::IPPROTO_UDP as u8)) {
        return None;
    }
    let port = u16::from_be_bytes(protocol.get(CTA_PROTO_DST_PORT)?.try_into().ok()?);
    let ip = tuple.inner(CTA_TUPLE_IP);
    let address = ip.get(CTA_IP_V4_DST).or_else(|| ip.get(CTA_IP_V6_DST))?;
    Some((address_of(address)?, port))
}

/// Creates a message with its `struct nfgenmsg`.
fn message(family: u8, kind: u16) -> Message {
    Message::new(NFNL_SUBSYS_CTNETLINK << 8 | kind, 0).fixed(&[family, 0, 0, 0])
}
