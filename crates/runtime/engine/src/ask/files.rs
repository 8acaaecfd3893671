//! The part of a pod request about the files that all its containers see.

use std::fmt::Write as _;

use orlop_cri_api::v1::{DnsConfig, PodSandboxConfig};

use crate::error::{Error, Result};

/// Linux refuses longer host names.
const HOSTNAME_MAX: usize = 64;

/// The requested content of a pod's files.
#[derive(Debug)]
pub struct FilesAsk {
    /// The pod's host name.
    pub hostname: String,
    /// The pod's `/etc/resolv.conf`; `None` selects the node's.
    pub resolv_conf: Option<String>,
}

impl FilesAsk {
    /// Validates a pod's configuration.
    pub fn read(config: &PodSandboxConfig) -> Result<Self> {
        let dns = config.dns_config.as_ref().filter(|dns| says_something(dns));
        Ok(Self {
            hostname: hostname(&config.hostname)?,
            resolv_conf: dns.map(resolv_conf).transpose()?,
        })
    }
}

/// Returns the pod's host name: the requested one, or the node's.
fn hostname(name: &str) -> Result<String> {
    if name.len() > HOSTNAME_MAX || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Error::invalid(
            "config.hostname",
            format!(
                "{name:?} is not a valid host name; use at most {HOSTNAME_MAX} characters without \
                 spaces"
            ),
        )
        .into());
    }
    if !name.is_empty() {
        return Ok(name.to_owned());
    }
    let node = rustix::system::uname();
    Ok(node.nodename().to_string_lossy().into_owned())
}

fn says_something(dns: &DnsConfig) -> bool {
    !(dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty())
}

fn resolv_conf(dns: &DnsConfig) -> Result<String> {
    let lists = [
        ("servers", &dns.servers),
        ("searches", &dns.searches),
        ("options", &dns.options),
    ];
    for (field, values) in lists {
        if let Some(bad) = values.iter().find(|value| value.contains(char::is_control)) {
            let problem = format!("{bad:?} contains a control character");
            return Err(Error::invalid(format!("config.dns_config.{field}"), problem).into());
        }
    }
    let mut text = String::new();
    if !dns.searches.is_empty() {
        let _ = writeln!(text, "search {}", dns.searches.join(" "));
    }
    for server in &dns.servers {
        let _ = writeln!(text, "nameserver {server}");
    }
    if !dns.options.is_empty() {
        let _ = writeln!(text, "options {}", dns.options.join(" "));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_has_searches_servers_and_options() {
        let dns = DnsConfig {
            servers: vec!["10.0.0.10".into(), "fd00::10".into()],
            searches: vec!["a.example".into(), "b.example".into()],
            options: vec!["ndots:5".into(), "edns0".into()],
        };
        assert_eq!(
            resolv_conf(&dns).unwrap(),
            "search a.example b.example\nnameserver 10.0.0.10\nnameserver fd00::10\n\
             options ndots:5 edns0\n"
        );
    }

    #[test]
    fn a_line_break_cannot_smuggle_a_server_in() {
        let dns = DnsConfig {
            searches: vec!["x\nnameserver 6.6.6.6".into()],
            ..Default::default()
        };
        let error = resolv_conf(&dns).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("config.dns_config.searches: "),
            "{error}"
        );
    }
}
