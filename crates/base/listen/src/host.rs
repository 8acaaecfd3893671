//! The host that a request names.
//!
//! With DNS rebinding, a web page of another site makes a browser send requests to an address of its own domain that
//! resolves to this node. Such a request names that domain. An IP address cannot be made to resolve elsewhere.

use std::net::IpAddr;

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Uri};

/// The value of a `Host` header.
#[derive(Debug)]
pub struct Host<'a> {
    text: &'a str,
    authority: Authority,
}

/// Several `Host` headers, a malformed value, or a host in the request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedHost;

impl<'a> Host<'a> {
    /// Returns the host that a request names; `None` if the header is missing, as HTTP/1.0 allows.
    pub fn of(uri: &Uri, headers: &'a HeaderMap) -> Result<Option<Self>, MalformedHost> {
        let mut hosts = headers.get_all(HOST).iter();
        let text = match (hosts.next(), hosts.next(), uri.authority()) {
            (None, None, None) => return Ok(None),
            (Some(host), None, None) => host.to_str().map_err(|_| MalformedHost)?,
            _ => return Err(MalformedHost),
        };
        let authority: Authority = text.parse().map_err(|_| MalformedHost)?;
        if text.contains('@') {
            return Err(MalformedHost);
        }
        Ok(Some(Self { text, authority }))
    }

    /// Returns the value as sent, including the port.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// Returns the address, if the host is an IP address.
    pub fn address(&self) -> Option<IpAddr> {
        let host = self.authority.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse().ok()
    }

    /// Returns whether the host is `localhost` or one of these names.
    pub fn is_named(&self, names: &[String]) -> bool {
        let names = names.iter().map(String::as_str);
        names.chain(["localhost"]).any(|name| self.is(name))
    }

    fn is(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(self.authority.host())
    }
}

/// Returns whether a request without credentials is for this node: it names an IP address, `localhost`, the node's host
/// name, one of these names, or no host at all.
pub fn is_for_this_node(uri: &Uri, headers: &HeaderMap, names: &[String]) -> bool {
    let Ok(host) = Host::of(uri, headers) else {
        return false;
    };
    host.is_none_or(|host| {
        let uname = rustix::system::uname();
        let own = uname.nodename().to_str();
        host.address().is_some() || host.is_named(names) || own.is_ok_and(|own| host.is(own))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_site_that_leads_its_name_here_is_refused_and_scrapers_are_not() {
        let uname = rustix::system::uname();
        let own = format!("{}:9273", uname.nodename().to_str().unwrap());
        let is_ours = |hosts: &[&str]| {
            let hosts = hosts.iter().map(|host| (HOST, host.parse().unwrap()));
            let mut headers = HeaderMap::new();
            for (name, host) in hosts {
                headers.append(name, host);
            }
            is_for_this_node(
                &Uri::from_static("/metrics"),
                &headers,
                &["node1.example".to_owned()],
            )
        };
        assert!(is_ours(&[]), "as HTTP/1.0 asks");
        for good in [
            "127.0.0.1:9273",
            "192.0.2.1",
            "[::1]:9273",
            "localhost:9273",
            "Node1.example:9273",
            &own,
        ] {
            assert!(is_ours(&[good]), "{good}");
        }
        for evil in [
            "evil.example",
            "evil.example:9273",
            "node1.example.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "",
        ] {
            assert!(!is_ours(&[evil]), "{evil}");
        }
        assert!(!is_ours(&["127.0.0.1", "evil.example"]));
        let absolute = Uri::from_static("http://evil.example/metrics");
        assert!(!is_for_this_node(&absolute, &HeaderMap::new(), &[]));
    }
}
