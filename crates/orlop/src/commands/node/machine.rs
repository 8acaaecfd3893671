//! Host name and address of the machine.

use std::net::{IpAddr, UdpSocket};

/// Returns the host name.
pub(crate) fn name() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().trim().to_lowercase()
}

/// Returns the source address of outgoing connections. No packet is sent: connecting a UDP socket only queries the
/// routing table. The addresses are those of RFC 5737 and RFC 3849.
pub(crate) fn address() -> Option<IpAddr> {
    [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")]
        .into_iter()
        .find_map(|(own, outside)| {
            let socket = UdpSocket::bind(own).ok()?;
            socket.connect(outside).ok()?;
            Some(socket.local_addr().ok()?.ip())
        })
}
