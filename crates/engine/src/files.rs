//! The files that every container of a pod sees: `/etc/hostname`, `/etc/hosts`,
//! `/etc/resolv.conf`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use orlop_cri::v1::DnsConfig;

use crate::error::{Error, Result};
use crate::pod::Pod;

/// Linux refuses longer host names.
const HOSTNAME_MAX: usize = 64;

/// Where a pod's files are.
#[derive(Debug, Clone)]
pub struct PodFiles {
    /// `/etc/hostname`.
    pub hostname: PathBuf,
    /// `/etc/hosts`.
    pub hosts: PathBuf,
    /// `/etc/resolv.conf`.
    pub resolv: PathBuf,
}

impl PodFiles {
    /// The paths of a pod's files.
    pub fn of(pod: &Pod) -> Self {
        // Containers may write to them: on the tmpfs of the pod's sockets they could fill it.
        let at = |name: &str| pod.dir.join(name);
        Self {
            hostname: at("hostname"),
            hosts: at("hosts"),
            resolv: at("resolv.conf"),
        }
    }

    /// Writes them.
    pub fn write(&self, pod: &Pod, ips: &[String]) -> Result<()> {
        let name = hostname(pod)?;
        write(&self.hostname, &format!("{name}\n"))?;
        if pod.host_network() {
            copy_or_empty(Path::new("/etc/hosts"), &self.hosts)?;
        } else {
            write(&self.hosts, &hosts(&name, ips))?;
        }
        match pod
            .config
            .dns_config
            .as_ref()
            .filter(|dns| says_something(dns))
        {
            Some(dns) => write(&self.resolv, &resolv_conf(dns)?),
            None => copy_or_empty(Path::new("/etc/resolv.conf"), &self.resolv),
        }
    }
}

/// The pod's host name: the one asked for, or the node's.
pub fn hostname(pod: &Pod) -> Result<String> {
    let name = &pod.config.hostname;
    if name.len() > HOSTNAME_MAX || name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(Error::invalid(
            "config.hostname",
            format!("{name:?} is no host name; it may have {HOSTNAME_MAX} characters, no spaces"),
        )
        .into());
    }
    if !name.is_empty() {
        return Ok(name.clone());
    }
    let node = rustix::system::uname();
    Ok(node.nodename().to_string_lossy().into_owned())
}

fn hosts(name: &str, ips: &[String]) -> String {
    let mut text = String::from(
        "127.0.0.1\tlocalhost\n\
         ::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\n\
         ff00::0\tip6-mcastprefix\n\
         ff02::1\tip6-allnodes\n\
         ff02::2\tip6-allrouters\n",
    );
    for ip in ips {
        let _ = writeln!(text, "{ip}\t{name}");
    }
    text
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
            let problem = format!("{bad:?} has a control character");
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

fn copy_or_empty(from: &Path, to: &Path) -> Result<()> {
    let content = match orlop_disk::read_file(from, orlop_disk::SMALL_FILE) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io(format!("reading {}", from.display()))(error).into()),
    };
    std::fs::write(to, content)
        .map_err(Error::io(format!("writing {}", to.display())))
        .map_err(Into::into)
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(Error::io(format!("writing {}", path.display())))
        .map_err(Into::into)
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

    #[test]
    fn the_pods_name_leads_to_its_addresses() {
        let text = hosts("web-0", &["10.1.0.7".into(), "fd00::7".into()]);
        assert!(
            text.ends_with("10.1.0.7\tweb-0\nfd00::7\tweb-0\n"),
            "{text}"
        );
        assert!(text.starts_with("127.0.0.1\tlocalhost\n"));
    }
}
