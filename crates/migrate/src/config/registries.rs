//! Registries as older files of containerd have them: mirrors, certificates and logins in the file itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use toml::Value;

use super::line::Line;
use super::rule::{not_said, note, unfit};
use super::{Machine, Outcome, Plan};

const HOSTS: &str = "certs.d";
const LOGINS: &str = "credentials.json";

#[derive(Default)]
struct Host {
    mirrors: Vec<String>,
    settings: Vec<String>,
    login: BTreeMap<&'static str, String>,
}

/// The lines of `registry`.
pub(super) fn containerd(plan: &mut Plan, machine: Machine<'_>, lines: Vec<Line>) {
    let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
    let mut dirs = vec![Value::String("/etc/orlop/certs.d".to_owned())];
    let mut has_dirs = false;
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
            _ if line.is_nothing() => not_said(),
            ["mirrors", host, "endpoint"] => {
                let mirrors = line.value.as_array().map(Vec::as_slice);
                let mirrors = mirrors.unwrap_or_default().iter().filter_map(Value::as_str);
                let host_of = hosts.entry(named(host)).or_default();
                host_of.mirrors.extend(mirrors.map(str::to_owned));
                match file_of(&named(host)) {
                    Some(file) => taken(&file),
                    None => unfit(),
                }
            }
            ["configs", host, "tls", key] => {
                let setting = match (*key, &line.value) {
                    ("insecure_skip_verify", Value::Boolean(true)) => {
                        Some("skip_verify = true".to_owned())
                    }
                    ("ca_file", Value::String(_)) => Some(format!("ca = {}", line.value)),
                    _ => None,
                };
                match (setting, file_of(host)) {
                    (Some(setting), Some(file)) => {
                        hosts
                            .entry((*host).to_owned())
                            .or_default()
                            .settings
                            .push(setting);
                        taken(&file)
                    }
                    _ => Outcome::Lost(format!(
                        "name certificate and key as `client` in the hosts.toml of {host}: docs/operations.md"
                    )),
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
                        let login = &mut hosts.entry((*host).to_owned()).or_default().login;
                        login.insert(key, text.to_owned());
                        taken(LOGINS)
                    }
                    _ => unfit(),
                }
            }
            ["headers", ..] => Outcome::Lost(
                "name headers in the hosts.toml of each registry: docs/operations.md".to_owned(),
            ),
            _ => Outcome::Lost(
                "this key is not known here: see whether the node needs it".to_owned(),
            ),
        };
        let mut shown = line.clone();
        if own.contains(&"auth") || own.first() == Some(&"auths") || own.first() == Some(&"headers")
        {
            shown.value = Value::String("(not shown)".to_owned());
        }
        note(plan, &shown, outcome);
    }
    let mut logins = BTreeMap::new();
    for (host, found) in hosts {
        if !found.login.is_empty() {
            logins.insert(host.clone(), login(&found.login));
        }
        if let Some(file) = file_of(&host)
            && !(found.mirrors.is_empty() && found.settings.is_empty())
        {
            has_dirs = true;
            let own = machine.target.join(HOSTS).display().to_string();
            let own = Value::String(own);
            if !dirs.contains(&own) {
                dirs.insert(0, own);
            }
            plan.files.insert(file, hosts_toml(&found));
        }
    }
    if has_dirs {
        dirs.dedup();
        plan.set("images", "hosts_dirs", Value::Array(dirs));
    }
    if !logins.is_empty() {
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

/// The directory of mirrors that are for all registries.
fn named(host: &str) -> String {
    if host == "*" {
        "_default".to_owned()
    } else {
        host.to_owned()
    }
}

/// Where a host's file is; none for names that would lead elsewhere.
fn file_of(host: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    let is_plain = !host.is_empty() && !host.starts_with('.') && host.chars().all(plain);
    is_plain.then(|| format!("{HOSTS}/{host}/hosts.toml"))
}

fn hosts_toml(host: &Host) -> String {
    let mut text = String::new();
    for setting in &host.settings {
        let _ = writeln!(text, "{setting}");
    }
    for mirror in &host.mirrors {
        let mirror = Value::String(mirror.clone());
        let _ = write!(
            text,
            "\n[host.{mirror}]\n  capabilities = [\"pull\", \"resolve\"]\n"
        );
    }
    text
}

/// A login as Docker's files have it.
fn login(fields: &BTreeMap<&str, String>) -> serde_json::Value {
    if let (Some(user), Some(password)) = (fields.get("username"), fields.get("password")) {
        return json!({ "auth": STANDARD.encode(format!("{user}:{password}")) });
    }
    json!(fields)
}
