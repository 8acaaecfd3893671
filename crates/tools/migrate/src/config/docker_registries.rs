//! Registries in `daemon.json`: mirrors of Docker Hub, and insecure registries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Value;

use super::hosts::{DIR, Endpoint, HUB, Host, Tls, file_of, hosts_toml, is_host};
use super::line::Line;
use super::plan::Outcome;
use super::rule::not_said;

#[derive(Default)]
pub(super) struct Registries {
    mirrors: Vec<Endpoint>,
    insecure: BTreeSet<String>,
}

const INSECURE: Tls = Tls {
    skip_verify: true,
    ca: None,
    certificate: None,
    key: None,
};

impl Registries {
    pub(super) fn mirrors(&mut self, line: &Line, target: &Path) -> Outcome {
        let parsed: Vec<_> = texts(line).map(Endpoint::parse).collect();
        let are_all = parsed.iter().all(Option::is_some);
        self.mirrors.extend(parsed.into_iter().flatten());
        match file_of(HUB.0) {
            _ if line.is_nothing() => not_said(),
            Some(file) if are_all => Outcome::Taken(target.join(file).display().to_string()),
            _ => Outcome::Lost(format!(
                "a mirror is not an HTTP address; add it to the hosts.toml of {}",
                HUB.0
            )),
        }
    }

    pub(super) fn insecure(&mut self, line: &Line, target: &Path) -> Outcome {
        let mut others = Vec::new();
        for text in texts(line) {
            let host = text.split_once("://").map_or(text, |(_, host)| host);
            if is_host(host) {
                self.insecure.insert(host.to_owned());
            } else if text.contains('@') {
                others.push("(an address with credentials)");
            } else {
                others.push(text);
            }
        }
        let dir = target.join(DIR).display().to_string();
        match others.as_slice() {
            _ if line.is_nothing() => not_said(),
            [] => Outcome::Taken(dir),
            others => Outcome::Lost(format!(
                "cannot convert {}: only single hosts can be converted to insecure registries. For \
                 an address range, create a hosts.toml in {dir} for each registry with \
                 `skip_verify`, and with `server = \"http://…\"` if it has no TLS",
                others.join(", ")
            )),
        }
    }

    /// Returns the files of these registries. Docker Hub itself is never insecure, as in Docker.
    pub(super) fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for registry in &self.insecure {
            if let Some(file) = file_of(registry)
                && registry != HUB.0
                && registry != "index.docker.io"
            {
                // TLS with any certificate, and without TLS if that fails.
                let https = Host {
                    url: Some(format!("https://{registry}")),
                    tls: INSECURE,
                    ..Host::default()
                };
                let http = Host {
                    url: Some(format!("http://{registry}")),
                    ..Host::default()
                };
                files.insert(file, hosts_toml(&[https], &http));
            }
        }
        if let Some(file) = file_of(HUB.0)
            && !self.mirrors.is_empty()
        {
            let hosts: Vec<Host> = self.mirrors.iter().map(|it| self.mirror(it)).collect();
            files.insert(file, hosts_toml(&hosts, &Host::default()));
        }
        files
    }

    fn mirror(&self, mirror: &Endpoint) -> Host {
        let tls = if self.insecure.contains(&mirror.host) {
            INSECURE
        } else {
            Tls::default()
        };
        Host {
            url: Some(mirror.url.clone()),
            tls,
            ..Host::default()
        }
    }
}

fn texts(line: &Line) -> impl Iterator<Item = &str> {
    let list = line.value.as_array().map(Vec::as_slice);
    list.unwrap_or_default().iter().filter_map(Value::as_str)
}
