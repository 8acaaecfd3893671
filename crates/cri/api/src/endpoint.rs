//! Where a runtime listens.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest path that fits the kernel's `sockaddr_un`, its final NUL left out.
const LONGEST_SOCKET_PATH: usize = 107;

/// The address of a CRI endpoint: a unix socket, or a loopback TCP port.
///
/// Written `unix:///run/orlop/orlop.sock`, `/run/orlop/orlop.sock` or `tcp://127.0.0.1:10010`.
/// The interface has no authentication of its own, so that any other TCP address is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A unix socket by its absolute path.
    Unix(PathBuf),
    /// A TCP port on a loopback address.
    Tcp(SocketAddr),
}

/// Text that isn't an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Nothing was given.
    #[error("the endpoint is empty; use the form unix:///path/to/runtime.sock")]
    Empty,
    /// A scheme other than `unix` and `tcp`.
    #[error("cannot use endpoint `{0}`: the scheme must be unix:// (or tcp:// on loopback)")]
    Scheme(String),
    /// A relative path.
    #[error("cannot use endpoint `{0}`: the path of a unix socket must be absolute (unix:///path)")]
    Relative(String),
    /// A path that the kernel has no room for.
    #[error(
        "cannot use endpoint `{0}`: the path of a unix socket is limited to {LONGEST_SOCKET_PATH} \
         bytes"
    )]
    TooLong(String),
    /// Something else than an IP address and a port after `tcp://`.
    #[error("cannot use endpoint `{0}`: use tcp://127.0.0.1:PORT or tcp://[::1]:PORT")]
    Tcp(String),
    /// An address that others can reach.
    #[error(
        "refusing endpoint `{0}`: the CRI has no authentication, so this address gives root \
         access; use a unix socket or tcp:// on a loopback address"
    )]
    NotLoopback(String),
}

impl Endpoint {
    /// The path of the unix socket, if it is one.
    pub fn unix_path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Tcp(_) => None,
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.is_empty() {
            return Err(EndpointError::Empty);
        }
        if let Some(address) = text.strip_prefix("tcp://") {
            return loopback(text, address);
        }
        let path = match text.split_once(':') {
            Some(("unix", rest)) => rest.strip_prefix("//").unwrap_or(rest),
            Some((scheme, _)) if is_scheme(scheme) => {
                return Err(EndpointError::Scheme(text.to_owned()));
            }
            _ => text,
        };
        if !path.starts_with('/') {
            return Err(EndpointError::Relative(text.to_owned()));
        }
        if path.len() > LONGEST_SOCKET_PATH {
            return Err(EndpointError::TooLong(text.to_owned()));
        }
        Ok(Self::Unix(PathBuf::from(path)))
    }
}

fn loopback(text: &str, address: &str) -> Result<Endpoint, EndpointError> {
    let address = address.trim_end_matches('/');
    let address: SocketAddr = match address.strip_prefix("localhost:") {
        Some(port) => port
            .parse()
            .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
            .ok(),
        None => address.parse().ok(),
    }
    .ok_or_else(|| EndpointError::Tcp(text.to_owned()))?;
    let loopback = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
        }
    };
    if loopback {
        Ok(Endpoint::Tcp(address))
    } else {
        Err(EndpointError::NotLoopback(text.to_owned()))
    }
}

/// A scheme as URLs have it, so that a path with a colon in it is still a path.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_sockets_are_written_with_and_without_a_scheme() {
        for text in [
            "unix:///run/a.sock",
            "unix:/run/a.sock",
            "/run/a.sock",
            " /run/a.sock\n",
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(
                endpoint.unix_path(),
                Some(Path::new("/run/a.sock")),
                "{text}"
            );
            assert_eq!(endpoint.to_string(), "unix:///run/a.sock");
        }
        assert!("/run/a:b.sock".parse::<Endpoint>().is_ok());
    }

    #[test]
    fn tcp_is_for_loopback_only() {
        for text in [
            "tcp://127.0.0.1:1",
            "tcp://[::1]:1",
            "tcp://localhost:1",
            "tcp://127.3.2.1:1/",
        ] {
            assert!(matches!(text.parse(), Ok(Endpoint::Tcp(_))), "{text}");
        }
        for text in [
            "tcp://0.0.0.0:1",
            "tcp://10.0.0.1:1",
            "tcp://[::]:1",
            "tcp://[fe80::1]:1",
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert_eq!(error, EndpointError::NotLoopback(text.into()));
            assert!(error.to_string().contains("unix socket"));
        }
        for text in [
            "tcp://",
            "tcp://node:1",
            "tcp://127.0.0.1",
            "tcp://127.0.0.1:99999",
        ] {
            assert_eq!(
                text.parse::<Endpoint>(),
                Err(EndpointError::Tcp(text.into()))
            );
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        assert_eq!("".parse::<Endpoint>(), Err(EndpointError::Empty));
        let refused = |text: &str| text.parse::<Endpoint>().unwrap_err();
        assert!(matches!(
            refused("npipe:////./pipe/x"),
            EndpointError::Scheme(_)
        ));
        assert!(matches!(refused("http://x"), EndpointError::Scheme(_)));
        assert!(matches!(refused("run/a.sock"), EndpointError::Relative(_)));
        assert!(matches!(
            refused("unix://run/a.sock"),
            EndpointError::Relative(_)
        ));
        assert!(matches!(
            refused(&format!("/{}", "a".repeat(107))),
            EndpointError::TooLong(_)
        ));
    }
}
