//! What the address of a registry host implies.

use reqwest::Url;

/// Host and, unless it is the scheme's own, port.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or("");
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether it is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        host == "localhost"
            || host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    })
}
