//! Addresses of CRI endpoints.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The maximum path length of the kernel's `sockaddr_un`, without the final NUL.
const LONGEST_SOCKET_PATH: usize = 107;

/// The address of a CRI endpoint: a unix socket, or a loopback TCP port.
///
/// Valid forms are `unix:///run/orlop/orlop.sock`, `/run/orlop/orlop.sock` and `tcp://127.0.0.1:10010`. The interface
/// has no authentication, so any other TCP address is rejected.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A unix socket by its absolute path.
    Unix(PathBuf),
    /// A TCP port on a loopback address.
    Tcp(SocketAddr),
}

/// A text that is not an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text is empty.
    #[error("the endpoint is empty; use the form unix:///path/to/runtime.sock")]
    Empty,
    /// The scheme is neither `unix` nor `tcp`.
    #[error("cannot use endpoint `{0}`: the scheme must be unix:// (or tcp:// on loopback)")]
    Scheme(String),
    /// The path is relative.
    #[error("cannot use endpoint `{0}`: the path of a unix socket must be absolute (unix:///path)")]
    Relative(String),
    /// The path is too long for the kernel.
    #[error(
        "cannot use endpoint `{0}`: the path of a unix socket is limited to {LONGEST_SOCKET_PATH} \
         bytes"
    )]
    TooLong(String),
    /// The text after `tcp://` is not an IP address and a port.
    #[error("cannot use endpoint `{0}`: use tcp://127.0.0.1:PORT or tcp://[::1]:PORT")]
    Tcp(String),
    /// The address is reachable from other hosts.
    #[error(
        "refusing endpoint `{0}`: the CRI has no authentication, so this address gives root \
         access; use a unix socket or tcp:// on a loopback address"
    )]
    NotLoopback(String),
}

impl Endpoint {
    /// Returns the path of the unix socket, if it is one.
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

/// Whether a text is a URL scheme. A path that contains a colon is still a path.
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
