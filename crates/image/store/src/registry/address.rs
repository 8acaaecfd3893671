//! Properties of a registry host's address.

use reqwest::Url;

/// Returns the host, with the port unless it is the scheme's default.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or("");
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns whether the address is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        host == "localhost"
            || host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    })
}
