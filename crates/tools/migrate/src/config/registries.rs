//! Registries in older containerd configurations: mirrors, certificates and logins in the main file.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use toml::Value;

use super::hosts::{DIR, Endpoint, HUB, Host, Tls, file_of, hosts_toml};
use super::line::Line;
use super::plan::{Machine, Outcome, Plan};
use super::rule::{not_said, note, unfit};

const LOGINS: &str = "credentials.json";
/// Directory name of the mirrors for all registries.
const ALL: &str = "_default";

#[derive(Default)]
struct Registries {
    /// Mirrors by registry.
    mirrors: BTreeMap<String, Vec<Endpoint>>,
    /// TLS settings by host, for all registries.
    tls: BTreeMap<String, Tls>,
    logins: BTreeMap<String, BTreeMap<&'static str, String>>,
}

/// Converts the lines of the table `registry`.
pub(super) fn containerd(plan: &mut Plan, machine: Machine<'_>, lines: Vec<Line>) {
    let mut found = Registries::default();
    let mut dirs = vec![Value::String("/etc/orlop/certs.d".to_owned())];
    let mut has_dirs = false;
    let halves: BTreeSet<Vec<String>> = lines
        .iter()
        .filter(|line| !line.is_nothing())
        .map(|line| line.path.clone())
        .collect();
    for line in lines {
        let path = line.segments();
        let at = path.iter().position(|part| *part == "registry");
        let own = at.map_or(&[][..], |at| &path[at + 1..]);
        let taken = |file: &str| Outcome::Taken(machine.target.join(file).display().to_string());
        let outcome = match own {
            ["config_path"] if !line.is_nothing() => {
                has_dirs = true;
                let paths = line.text().unwrap_or_default().split(':');
                dirs.extend(paths.map(|path| Value::String(path.to_owned())));
                Outcome::Taken("images.hosts_dirs".to_owned())
            }
            ["mirrors", host, "endpoint"] => {
                let registry = if *host == "*" { ALL } else { host };
                match (file_of(registry), found.mirrors(registry, &line)) {
                    _ if line.is_nothing() => not_said(),
                    (Some(file), true) => taken(&file),
                    (None, _) => unfit(),
                    (_, false) => Outcome::Lost(
                        "an address is not an HTTP address; add it to the hosts.toml of the \
                         registry"
                            .to_owned(),
                    ),
                }
            }
            _ if line.is_nothing() => not_said(),
            ["configs", host, "tls", _] if *host == HUB.0 => Outcome::Needless(format!(
                "images of {} come from {}, and only the settings of that host are used",
                HUB.0, HUB.1
            )),
            ["configs", host, "tls", key] => {
                let other = match *key {
                    "cert_file" => "key_file",
                    _ => "cert_file",
                };
                let mut sibling = line.path.clone();
                if let Some(last) = sibling.last_mut() {
                    other.clone_into(last);
                }
                let is_pair = halves.contains(&sibling);
                match file_of(registry_of(host)) {
                    Some(file) if found.tls(host, key, is_pair, &line.value) => taken(&file),
                    Some(_) if matches!(*key, "cert_file" | "key_file") => Outcome::Lost(
                        "a client certificate needs its key; set both or neither".to_owned(),
                    ),
                    _ => unfit(),
                }
            }
            ["configs", host, "auth", key] | ["auths", host, key] => {
                let key = match *key {
                    "username" => Some("username"),
                    "password" => Some("password"),
                    "auth" => Some("auth"),
                    "identitytoken" => Some("identitytoken"),
                    _ => None,
                };
                match (key, line.text()) {
                    (Some(key), Some(text)) => {
                        let login = found.logins.entry((*host).to_owned()).or_default();
                        login.insert(key, text.to_owned());
                        taken(LOGINS)
                    }
                    _ => unfit(),
                }
            }
            ["headers", ..] => Outcome::Lost(
                "set headers in the hosts.toml of each registry (docs/guides/registries.md)"
                    .to_owned(),
            ),
            _ => Outcome::Lost("unknown key; check whether the node needs it".to_owned()),
        };
        note(plan, &line, outcome);
    }
    let files = found.files();
    if !files.is_empty() {
        has_dirs = true;
        let own = Value::String(machine.target.join(DIR).display().to_string());
        if !dirs.contains(&own) {
            dirs.insert(0, own);
        }
        plan.files.extend(files);
    }
    if has_dirs {
        dirs.dedup();
        plan.set("images", "hosts_dirs", Value::Array(dirs));
    }
    if !found.logins.is_empty() {
        let logins: BTreeMap<_, _> = found
            .logins
            .iter()
            .map(|(host, fields)| (host, login(fields)))
            .collect();
        let text = json!({ "auths": logins }).to_string();
        plan.files.insert(LOGINS.to_owned(), text);
        let path = machine.target.join(LOGINS).display().to_string();
        plan.set(
            "images",
            "credentials",
            Value::Array(vec![Value::String(path)]),
        );
    }
}

impl Registries {
    /// Adds the mirrors of a registry. Returns whether all are valid.
    fn mirrors(&mut self, registry: &str, line: &Line) -> bool {
        let texts = line.value.as_array().map(Vec::as_slice);
        let texts = texts.unwrap_or_default().iter().filter_map(Value::as_str);
        let parsed: Vec<_> = texts.map(Endpoint::parse).collect();
        let are_all = parsed.iter().all(Option::is_some);
        let mirrors = self.mirrors.entry(registry.to_owned()).or_default();
        mirrors.extend(parsed.into_iter().flatten());
        are_all
    }

    /// Adds a TLS setting of a host. Returns whether it is valid.
    fn tls(&mut self, host: &str, key: &str, is_pair: bool, value: &Value) -> bool {
        let tls = self.tls.entry(host.to_owned()).or_default();
        match (key, value) {
            ("insecure_skip_verify", Value::Boolean(true)) => tls.skip_verify = true,
            ("ca_file", Value::String(path)) => tls.ca = Some(path.clone()),
            ("cert_file", Value::String(path)) if is_pair => tls.certificate = Some(path.clone()),
            ("key_file", Value::String(path)) if is_pair => tls.key = Some(path.clone()),
            _ => return false,
        }
        true
    }

    /// Returns the files of all registries with settings.
    fn files(&self) -> BTreeMap<String, String> {
        let all = self.mirrors.get(ALL);
        let of_hosts = self.tls.iter().filter(|(_, tls)| tls.says_something());
        let of_hosts = of_hosts.map(|(host, _)| registry_of(host));
        let registries = self.mirrors.iter().filter_map(|(registry, mirrors)| {
            // An empty list excludes the mirrors for all registries.
            (!mirrors.is_empty() || all.is_some()).then_some(registry.as_str())
        });
        let names: BTreeSet<&str> = registries.chain(of_hosts).collect();
        names
            .into_iter()
            .filter_map(|registry| {
                let mirrors = self.mirrors.get(registry).or(all);
                let mirrors = mirrors.map(Vec::as_slice).unwrap_or_default();
                Some((file_of(registry)?, self.file(registry, mirrors)))
            })
            .collect()
    }

    fn file(&self, registry: &str, mirrors: &[Endpoint]) -> String {
        let own = if registry == HUB.0 { HUB.1 } else { registry };
        let mut hosts: Vec<&Endpoint> = mirrors.iter().collect();
        // If the registry's own host is among the mirrors, only the settings of that mirror are used.
        let server = hosts.iter().rfind(|mirror| mirror.host == own).copied();
        if server.is_some() && hosts.last().copied() == server {
            hosts.pop();
        }
        let hosts: Vec<Host> = hosts.into_iter().map(|host| self.host(host)).collect();
        let server = match server {
            Some(server) => self.host(server),
            None => Host {
                tls: self.tls.get(own).cloned().unwrap_or_default(),
                ..Host::default()
            },
        };
        hosts_toml(&hosts, &server)
    }

    fn host(&self, endpoint: &Endpoint) -> Host {
        Host {
            url: Some(endpoint.url.clone()),
            is_complete: endpoint.has_path,
            tls: self.tls.get(&endpoint.host).cloned().unwrap_or_default(),
        }
    }
}

/// Returns the registry that has this host.
fn registry_of(host: &str) -> &str {
    if host == HUB.1 { HUB.0 } else { host }
}

/// Formats a login as in Docker's files.
fn login(fields: &BTreeMap<&str, String>) -> serde_json::Value {
    if let (Some(user), Some(password)) = (fields.get("username"), fields.get("password")) {
        return json!({ "auth": STANDARD.encode(format!("{user}:{password}")) });
    }
    json!(fields)
}
