//! Addresses that the daemon listens on.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::Path;
use std::str::FromStr;

use super::path::AbsolutePath;
use super::text::text_value;

/// The path of a unix socket, written as a plain path or as `unix:///path`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SocketPath(AbsolutePath);

/// Size of `sun_path` in sockaddr_un, without the final zero.
const LONGEST_PATH: usize = 107;

impl FromStr for SocketPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        if path.contains("://") {
            return Err(format!(
                "{text:?} is not a unix socket; clients of this API have full control of the node, \
                 so it is served only on unix:///path",
            ));
        }
        if path.len() > LONGEST_PATH {
            return Err(format!(
                "the socket path {path:?} is longer than {LONGEST_PATH} bytes, the limit of a unix socket",
            ));
        }
        path.parse().map(Self)
    }
}

impl fmt::Display for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0)
    }
}

impl Deref for SocketPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

text_value!(SocketPath, "unix socket");

/// Address of the metrics endpoint: a unix socket or a loopback TCP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MetricsEndpoint {
    /// A unix socket.
    Unix(SocketPath),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl FromStr for MetricsEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("unix:") || text.starts_with('/') {
            return text.parse().map(Self::Unix);
        }
        let address = text.strip_prefix("tcp://").unwrap_or(text);
        let address: SocketAddr = address.parse().map_err(|_| {
            format!("{text:?} is neither unix:///path nor an address such as 127.0.0.1:9273")
        })?;
        Ok(Self::Tcp(address))
    }
}

impl fmt::Display for MetricsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.fmt(f),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

text_value!(MetricsEndpoint, "unix socket or address");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_a_path_with_or_without_its_scheme() {
        let bare: SocketPath = "/run/a.sock".parse().unwrap();
        assert_eq!(bare, "unix:///run/a.sock".parse().unwrap());
        assert_eq!(bare.to_string(), "unix:///run/a.sock");
    }

    #[test]
    fn the_api_is_never_served_over_tcp() {
        assert!(
            "tcp://127.0.0.1:1"
                .parse::<SocketPath>()
                .unwrap_err()
                .contains("unix:///path")
        );
        assert!(
            "run/a.sock"
                .parse::<SocketPath>()
                .unwrap_err()
                .contains("absolute")
        );
        assert!(
            format!("/{}", "a".repeat(107))
                .parse::<SocketPath>()
                .is_err()
        );
    }

    #[test]
    fn metrics_are_served_at_addresses_and_sockets() {
        for good in [
            "127.0.0.1:9273",
            "tcp://[::1]:9273",
            "unix:///run/m.sock",
            "/run/m.sock",
            "0.0.0.0:9273",
        ] {
            assert!(good.parse::<MetricsEndpoint>().is_ok(), "{good}");
        }
        for wrong in ["localhost:1", "", ":9273", "10.0.0.1"] {
            assert!(wrong.parse::<MetricsEndpoint>().is_err(), "{wrong}");
        }
    }
}
