//! The addresses of hosts, which a name server is asked for that may not answer.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use crate::Place;

/// Looks a host up, by address or by name, on a thread of the place.
pub async fn look_up(place: &'static Place, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    let looking = place.run_for(host, move || {
        let found = (name.as_str(), port).to_socket_addrs();
        found.map(Iterator::collect)
    });
    looking.await.map_err(io::Error::other)?
}
