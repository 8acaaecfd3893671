//! Name resolution with a name server that may not respond.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use crate::Place;

/// Resolves a host, an address or a name, on a thread of the pool.
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
