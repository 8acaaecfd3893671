//! Finds the hosts of a registry in `certs.d` directories, in containerd's format.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use orlop_credentials::same_registry;
use reqwest::Url;
use serde::Deserialize;
use toml::Spanned;

use super::address::authority;
use super::host::Host;
use super::tls::Tls;
use crate::place::Lines;
use crate::{DEFAULT_DOMAIN, Error, Result};

/// The registry of Docker Hub has a different host than its name.
const DOCKER_HUB: &str = "registry-1.docker.io";

/// Name of the directory for registries without one of their own.
const DEFAULT_DIRECTORY: &str = "_default";

/// Maximum size of a `hosts.toml`.
const LARGEST: u64 = 1 << 20;

/// The settings that determined the hosts of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedBy {
    /// Settings of this registry.
    ItsOwn,
    /// Settings for all other registries, or none.
    Default,
}

/// Returns the hosts of `domain` in order, and which settings determined them. Blocks on small files.
pub(super) fn hosts_for(dirs: &[PathBuf], domain: &str) -> Result<(Vec<Host>, DecidedBy)> {
    for dir in dirs {
        for name in directory_names(domain) {
            let by = if name == DEFAULT_DIRECTORY {
                DecidedBy::Default
            } else {
                DecidedBy::ItsOwn
            };
            let dir = dir.join(name);
            let file = dir.join("hosts.toml");
            match orlop_fs::read_text(&file, LARGEST) {
                Ok(text) => {
                    let hosts = parse(&text, &dir, domain);
                    let hosts = hosts.map_err(|reason| Error::Configuration {
                        path: file.display().to_string(),
                        reason,
                    });
                    return hosts.map(|hosts| (hosts, by));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(unreadable(&file, &error)),
            }
            if dir.is_dir() {
                let mut host = own_host(domain).map_err(|reason| Error::Configuration {
                    path: dir.display().to_string(),
                    reason,
                })?;
                host.tls = docker_style(&dir);
                host.told_by = Some(dir.display().to_string());
                return Ok((vec![host], by));
            }
        }
    }
    let host = own_host(domain).map_err(|reason| Error::InvalidReference {
        reference: domain.to_owned(),
        reason,
    })?;
    Ok((vec![host], DecidedBy::Default))
}

fn unreadable(file: &Path, error: &std::io::Error) -> Error {
    Error::Configuration {
        path: file.display().to_string(),
        reason: error.to_string(),
    }
}

/// Returns the possible directory names. Some filesystems allow no colon, so `host_5000_` is valid too.
fn directory_names(domain: &str) -> Vec<String> {
    let mut names = vec![domain.to_owned()];
    if let Some((host, port)) = domain.rsplit_once(':') {
        names.push(format!("{host}_{port}_"));
    }
    names.push(DEFAULT_DIRECTORY.to_owned());
    names
}

#[derive(Deserialize)]
struct File {
    server: Option<Spanned<String>>,
    #[serde(flatten)]
    server_settings: Settings,
    #[serde(default)]
    host: BTreeMap<Spanned<String>, Settings>,
}

#[derive(Deserialize, Default)]
struct Settings {
    capabilities: Option<Vec<String>>,
    ca: Option<OneOrMany>,
    client: Option<ClientCertificates>,
    #[serde(default)]
    skip_verify: bool,
    #[serde(default)]
    header: BTreeMap<String, OneOrMany>,
    #[serde(default)]
    override_path: bool,
    dial_timeout: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ClientCertificates {
    One(String),
    Many(Vec<OneOrMany>),
}

impl OneOrMany {
    fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

/// Reads every `hosts.toml` below `dirs`, and returns the registries with their errors. Blocks on small files.
pub fn check_registry_hosts(dirs: &[PathBuf]) -> Vec<(String, Option<Error>)> {
    let entries = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok());
    let mut checked = Vec::new();
    for entry in entries.flatten().flatten() {
        let file = entry.path().join("hosts.toml");
        let domain = entry.file_name().to_string_lossy().into_owned();
        let problem = match orlop_fs::read_text(&file, LARGEST) {
            Ok(text) => {
                parse(&text, &entry.path(), &domain)
                    .err()
                    .map(|reason| Error::Configuration {
                        path: file.display().to_string(),
                        reason,
                    })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => Some(unreadable(&file, &error)),
        };
        checked.push((domain, problem));
    }
    checked
}

/// Parses a `hosts.toml` in `dir` for `domain`.
pub(crate) fn parse(text: &str, dir: &Path, domain: &str) -> Result<Vec<Host>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    // Hosts have the order of the file, but the parser sorts tables by name.
    let mut entries: Vec<_> = file.host.into_iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let lines = Lines::of(&dir.join("hosts.toml"), text);
    let place = |at| Some(lines.place(at).to_string());
    let mut hosts = Vec::new();
    for (name, settings) in entries {
        let mut host = host(name.get_ref(), &settings, dir)?;
        host.is_own = same_registry(&host.name(), domain);
        host.told_by = place(name.span().start);
        hosts.push(host);
    }
    let own = own_host(domain)?;
    let server = file.server.as_ref();
    let address = server.map_or(own.base.as_str(), |server| server.get_ref());
    let told_by = place(server.map_or(0, |server| server.span().start));
    let mut server = host(address, &file.server_settings, dir)?;
    server.is_own = true;
    server.told_by = told_by;
    hosts.push(server);
    Ok(hosts)
}

fn host(address: &str, settings: &Settings, dir: &Path) -> Result<Host, String> {
    let with_scheme = if address.contains("://") {
        address.to_owned()
    } else {
        format!("{}://{address}", default_scheme(address))
    };
    let mut base =
        Url::parse(&with_scheme).map_err(|error| format!("host {address:?}: {error}"))?;
    if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
        return Err(format!("host {address:?} is not an http or https address"));
    }
    if !base.username().is_empty() || base.password().is_some() {
        return Err(format!(
            "the address of host {:?} contains credentials",
            authority(&base)
        ));
    }
    let path = base.path().trim_end_matches('/').to_owned();
    base.set_path(&if settings.override_path || path.ends_with("/v2") {
        path
    } else {
        path + "/v2"
    });
    base.set_query(None);
    let capabilities = |name: &str| {
        settings
            .capabilities
            .as_ref()
            .is_none_or(|known| known.iter().any(|known| known == name))
    };
    let mut headers = HeaderMap::new();
    for (name, values) in &settings.header {
        let name: HeaderName = name
            .parse()
            .map_err(|_| format!("{name:?} is not a header name"))?;
        for value in values.as_slice() {
            let value: HeaderValue = value
                .parse()
                .map_err(|_| format!("header {name} has an invalid value"))?;
            headers.append(name.clone(), value);
        }
    }
    let connect_timeout = match &settings.dial_timeout {
        Some(text) => {
            let length = orlop_text::duration::parse(text);
            Some(length.map_err(|_| format!("dial_timeout {text:?} is not a duration"))?)
        }
        None => None,
    };
    Ok(Host {
        base,
        pull: capabilities("pull"),
        resolve: capabilities("resolve"),
        tls: tls(settings, dir)?,
        headers,
        connect_timeout,
        is_own: false,
        standing: Arc::default(),
        told_by: None,
        source: None,
        twin: None,
    })
}

fn tls(settings: &Settings, dir: &Path) -> Result<Tls, String> {
    let pairs = match &settings.client {
        None => Vec::new(),
        Some(ClientCertificates::One(one)) => vec![(dir.join(one), None)],
        Some(ClientCertificates::Many(many)) => many
            .iter()
            .map(|item| match item {
                OneOrMany::One(one) => Ok((dir.join(one), None)),
                OneOrMany::Many(pair) => match &pair[..] {
                    [certificate] => Ok((dir.join(certificate), None)),
                    [certificate, key] if key.is_empty() => Ok((dir.join(certificate), None)),
                    [certificate, key] => Ok((dir.join(certificate), Some(dir.join(key)))),
                    _ => Err(
                        "a client entry must be a certificate, or a certificate and a key"
                            .to_owned(),
                    ),
                },
            })
            .collect::<Result<_, _>>()?,
    };
    Ok(Tls {
        authorities: settings
            .ca
            .as_ref()
            .map(|ca| ca.as_slice().iter().map(|path| dir.join(path)).collect())
            .unwrap_or_default(),
        client: pairs,
        skip_verify: settings.skip_verify,
    })
}

/// Reads Docker's layout of the same directory: `*.crt` are certificate authorities, `*.cert` and `*.key` a client's
/// pair.
fn docker_style(dir: &Path) -> Tls {
    let mut tls = Tls::default();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    for path in paths {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("crt") => tls.authorities.push(path),
            Some("cert") => {
                let key = path.with_extension("key");
                tls.client.push((path, Some(key)));
            }
            _ => {}
        }
    }
    tls
}

/// Returns the registry's own host without any settings.
fn own_host(domain: &str) -> Result<Host, String> {
    let address = if domain == DEFAULT_DOMAIN {
        DOCKER_HUB
    } else {
        domain
    };
    let mut host = host(address, &Settings::default(), Path::new("/"))?;
    host.is_own = true;
    Ok(host)
}

/// Returns the default scheme: plain HTTP only for this machine.
fn default_scheme(address: &str) -> &'static str {
    let host = address.split('/').next().unwrap_or("");
    let (host, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or((rest, ""), |(host, port)| {
            (host, port.trim_start_matches(':'))
        }),
        None => host.split_once(':').unwrap_or((host, "")),
    };
    let loopback = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    if loopback && port != "443" {
        "http"
    } else {
        "https"
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bases(hosts: &[Host]) -> Vec<&str> {
        hosts.iter().map(|host| host.base.as_str()).collect()
    }

    #[test]
    fn without_settings_the_registry_is_asked_itself() {
        for (domain, base) in [
            ("docker.io", "https://registry-1.docker.io/v2"),
            ("a.example:5000", "https://a.example:5000/v2"),
            ("localhost:5000", "http://localhost:5000/v2"),
            ("127.0.0.1:5000", "http://127.0.0.1:5000/v2"),
            ("[::1]:5000", "http://[::1]:5000/v2"),
            ("localhost:443", "https://localhost/v2"),
        ] {
            assert_eq!(
                bases(&hosts_for(&[], domain).unwrap().0),
                [base],
                "{domain}"
            );
        }
    }

    #[test]
    fn a_hosts_file_without_end_is_refused_by_its_name() {
        let scratch = tempfile::tempdir().unwrap();
        let dirs = [scratch.path().to_owned()];
        let dir = dirs[0].join("a.example");
        let file = dir.join("hosts.toml");
        std::fs::create_dir(&dir).unwrap();
        let refusal = || {
            let pulled = hosts_for(&dirs, "a.example").unwrap_err().to_string();
            let checked = check_registry_hosts(&dirs).remove(0).1.unwrap();
            assert_eq!(pulled, checked.to_string());
            assert!(pulled.contains("a.example/hosts.toml"), "{pulled}");
            pulled
        };
        let endless = std::fs::File::create(&file).unwrap();
        endless.set_len(LARGEST + 1).unwrap();
        assert!(refusal().contains("1048576 bytes"), "{}", refusal());
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert!(refusal().contains("not a regular file"), "{}", refusal());
    }

    #[test]
    fn hosts_keep_the_order_of_the_file_and_the_server_comes_last() {
        let text = r#"
            server = "https://upstream.example"
            [host."https://z.example"]
              capabilities = ["pull"]
            [host."http://a.example:81/mirror/hub"]
              override_path = true
              skip_verify = true
              ca = ["one.pem", "/abs/two.pem"]
              client = [["c.pem", "k.pem"], "both.pem"]
              dial_timeout = "3s"
              [host."http://a.example:81/mirror/hub".header]
                x-one = "1"
                x-many = ["2", "3"]
            [host."m.example/sub"]
        "#;
        let hosts = parse(text, Path::new("/certs"), "docker.io").unwrap();
        assert_eq!(
            bases(&hosts),
            [
                "https://z.example/v2",
                "http://a.example:81/mirror/hub",
                "https://m.example/sub/v2",
                "https://upstream.example/v2"
            ]
        );
        assert!(hosts[0].pull && !hosts[0].resolve);
        let second = &hosts[1];
        assert_eq!(
            second.tls.authorities,
            [Path::new("/certs/one.pem"), Path::new("/abs/two.pem")]
        );
        assert_eq!(
            second.tls.client[0].1.as_deref(),
            Some(Path::new("/certs/k.pem"))
        );
        assert_eq!(
            second.tls.client[1],
            (PathBuf::from("/certs/both.pem"), None)
        );
        assert_eq!(second.headers.get_all("x-many").iter().count(), 2);
        assert_eq!(second.connect_timeout, Some(Duration::from_secs(3)));
        assert!(hosts[3].is_own && !hosts[0].is_own);
    }

    #[test]
    fn the_most_specific_directory_decides() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, server: &str| {
            std::fs::create_dir(dir.path().join(name)).unwrap();
            let text = format!("server = \"{server}\"");
            std::fs::write(dir.path().join(name).join("hosts.toml"), text).unwrap();
        };
        write("_default", "https://default.example");
        write("a.example_5000_", "https://five.example");
        let dirs = [dir.path().to_owned()];
        assert_eq!(
            bases(&hosts_for(&dirs, "a.example:5000").unwrap().0),
            ["https://five.example/v2"]
        );
        assert_eq!(
            bases(&hosts_for(&dirs, "b.example").unwrap().0),
            ["https://default.example/v2"]
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, reason) in [
            ("server = 3", "invalid type"),
            ("[host.\"ftp://x\"]", "not an http or https"),
            ("[host.\"https://u:p@x\"]", "credentials"),
            (
                "[host.\"https://x\"]\ndial_timeout = \"soon\"",
                "not a duration",
            ),
            (
                "[host.\"https://x\".header]\n\"a b\" = \"c\"",
                "not a header name",
            ),
        ] {
            let error = parse(text, Path::new("/"), "x").unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(text in "(server|host|ca|client|header|\\[|\\]|=|\"|http://|x|\\.|:|[0-9]|\n){0,40}") {
            let _ = parse(&text, Path::new("/"), "registry.example");
        }
    }
}
