//! `hosts.toml` files with the mirrors of a registry, in the format that orlop reads.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use toml::Value;

/// Directory of the files, below orlop's configuration directory.
pub(super) const DIR: &str = "certs.d";

/// The registry whose host has another name, and that host.
pub(super) const HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// Address of a host in the other runtime's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// URL without credentials.
    pub(super) url: String,
    /// Host and port.
    pub(super) host: String,
    /// Whether the URL has a path.
    pub(super) has_path: bool,
}

/// TLS settings of a host.
#[derive(Debug, Clone, Default)]
pub(super) struct Tls {
    pub(super) skip_verify: bool,
    pub(super) ca: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
}

/// A host to pull from.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// Its URL; `None` for the registry's own host.
    pub(super) url: Option<String>,
    /// Whether `/v2` is not appended to the path.
    pub(super) is_complete: bool,
    pub(super) tls: Tls,
}

impl Tls {
    /// Returns whether anything is set.
    pub(super) fn says_something(&self) -> bool {
        self.skip_verify || self.ca.is_some() || self.certificate.is_some()
    }
}

impl Endpoint {
    /// Parses an HTTP address, with or without a scheme.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_graphic() && !"\"'\\<>`{}|^".contains(c);
        if !text.chars().all(is_plain) {
            return None;
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (Some(scheme), rest),
            Some(_) => return None,
            None => (None, text),
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let host = authority.rsplit('@').next().unwrap_or_default();
        if !is_host(host) {
            return None;
        }
        let path = path.trim_end_matches('/');
        let scheme = scheme.map_or_else(String::new, |scheme| format!("{scheme}://"));
        Some(Self {
            url: format!("{scheme}{host}{path}"),
            host: host.to_owned(),
            has_path: !path.is_empty(),
        })
    }
}

/// Returns whether this is a host, with or without a port.
pub(super) fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !host.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let inner = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_name = if let Some(address) = inner {
        address.parse::<std::net::Ipv6Addr>().is_ok()
    } else {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)
    };
    is_name && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Returns the path of a registry's file; `None` for names that would lead elsewhere.
pub(super) fn file_of(registry: &str) -> Option<String> {
    is_host(registry).then(|| format!("{DIR}/{registry}/hosts.toml"))
}

/// Returns the file of a registry: its mirrors, and its own host.
pub(super) fn hosts_toml(hosts: &[Host], server: &Host) -> String {
    let mut text = String::new();
    if let Some(url) = &server.url {
        let _ = writeln!(text, "server = {}", quoted(url));
    }
    settings(&mut text, "", server);
    let mut seen = BTreeSet::new();
    for host in hosts {
        let Some(url) = host.url.as_ref().filter(|url| seen.insert(*url)) else {
            continue;
        };
        let _ = write!(
            text,
            "\n[host.{}]\n  capabilities = [\"pull\", \"resolve\"]\n",
            quoted(url)
        );
        settings(&mut text, "  ", host);
    }
    text
}

fn settings(text: &mut String, indent: &str, host: &Host) {
    if host.is_complete {
        let _ = writeln!(text, "{indent}override_path = true");
    }
    if host.tls.skip_verify {
        let _ = writeln!(text, "{indent}skip_verify = true");
    }
    if let Some(ca) = &host.tls.ca {
        let _ = writeln!(text, "{indent}ca = {}", quoted(ca));
    }
    if let (Some(certificate), Some(key)) = (&host.tls.certificate, &host.tls.key) {
        let (certificate, key) = (quoted(certificate), quoted(key));
        let _ = writeln!(text, "{indent}client = [[{certificate}, {key}]]");
    }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_credentials_and_what_is_none_is_refused() {
        for (text, url, host, has_path) in [
            ("https://a.example", "https://a.example", "a.example", false),
            (
                "http://a.example:1/",
                "http://a.example:1",
                "a.example:1",
                false,
            ),
            ("a.example/x/?y#z", "a.example/x", "a.example", true),
            (
                "https://me:pw@[::1]:5/v2",
                "https://[::1]:5/v2",
                "[::1]:5",
                true,
            ),
        ] {
            let parsed = Endpoint::parse(text).unwrap();
            let parsed = (parsed.url.as_str(), parsed.host.as_str(), parsed.has_path);
            assert_eq!(parsed, (url, host, has_path), "{text}");
        }
        for text in [
            "",
            "https://",
            "ftp://a",
            "https://a\"]",
            "https://a b",
            "a:x",
            "::1",
            "../x",
            "[::1",
        ] {
            assert_eq!(Endpoint::parse(text), None, "{text}");
        }
        for name in ["..", ".", "", "a/b", "10.0.0.0/8", "::1"] {
            assert_eq!(file_of(name), None, "{name}");
        }
    }
}
