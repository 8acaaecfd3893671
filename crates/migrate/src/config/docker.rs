//! Docker's `daemon.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orlop_yaml::{Content, Document, Node, documents};
use toml::Value;

use super::line::{Line, read};
use super::rule::Rule::{Apart, As, Lost, Needless};
use super::rule::{Rules, apply, not_said, note, unfit};
use super::{Machine, Outcome, Plan};
use crate::{Error, Result};

const OWN: &str = "the engine's own affair";

const RULES: Rules = &[
    ("data-root", Apart),
    ("exec-opts", Apart),
    ("runtimes/*", Apart),
    ("default-runtime", Apart),
    ("registry-mirrors", Apart),
    ("insecure-registries", Apart),
    ("default-ulimits/*", Apart),
    ("debug", Apart),
    ("log-level", As("log", "level")),
    ("max-concurrent-downloads", As("images", "max_downloads")),
    ("cdi-spec-dirs", As("containers", "cdi_dirs")),
    (
        "metrics-addr",
        Lost("set `metrics.listen`: one for other machines needs TLS and somebody who may ask"),
    ),
    (
        "default-shm-size",
        Lost("/dev/shm has 64 MiB: mount an emptyDir with medium Memory there"),
    ),
    (
        "seccomp-profile",
        Lost("the default profile is built in: name your own in pods (localhostProfile)"),
    ),
    (
        "userns-remap",
        Lost("user namespaces are the kubelet's to say: set hostUsers: false in pods"),
    ),
    (
        "no-new-privileges",
        Lost("set allowPrivilegeEscalation: false in pods"),
    ),
    (
        "selinux-enabled",
        Needless("labels are applied wherever the kernel has SELinux"),
    ),
    (
        "init",
        Lost(
            "containers have no init of the runtime's: use shareProcessNamespace, or an image with one",
        ),
    ),
    (
        "log-driver",
        Lost("logs are the kubelet's files: have an agent read /var/log/containers"),
    ),
    (
        "log-opts/*",
        Lost("the kubelet rotates logs: containerLogMaxSize, containerLogMaxFiles"),
    ),
    (
        "live-restore",
        Needless("containers always go on without the daemon"),
    ),
    (
        "storage-driver",
        Needless("layers are directories or EROFS: `images.store`"),
    ),
    (
        "storage-opts",
        Lost("quotas of containers have no counterpart: set limits of ephemeral-storage"),
    ),
    (
        "hosts",
        Needless(
            "orlop listens on its own socket: give the kubelet --container-runtime-endpoint=unix:///run/orlop/orlop.sock",
        ),
    ),
    (
        "proxies/*",
        Lost("set HTTP_PROXY, HTTPS_PROXY and NO_PROXY in a drop-in of orlop's unit"),
    ),
    (
        "http-proxy",
        Lost("set HTTP_PROXY in a drop-in of orlop's unit"),
    ),
    (
        "https-proxy",
        Lost("set HTTPS_PROXY in a drop-in of orlop's unit"),
    ),
    (
        "no-proxy",
        Lost("set NO_PROXY in a drop-in of orlop's unit"),
    ),
    ("cgroup-parent", Needless("the kubelet says where pods are")),
    ("dns", Needless("the kubelet says what resolves names")),
    ("dns-opts", Needless("the kubelet says what resolves names")),
    (
        "dns-search",
        Needless("the kubelet says what resolves names"),
    ),
    ("bip", Needless("pods have networks of CNI")),
    ("bridge", Needless("pods have networks of CNI")),
    ("ipv6", Needless("pods have networks of CNI")),
    ("fixed-cidr", Needless("pods have networks of CNI")),
    ("fixed-cidr-v6", Needless("pods have networks of CNI")),
    (
        "default-address-pools",
        Needless("pods have networks of CNI"),
    ),
    ("mtu", Needless("pods have networks of CNI")),
    ("iptables", Needless("pods have networks of CNI")),
    ("ip6tables", Needless("pods have networks of CNI")),
    ("ip-forward", Needless("pods have networks of CNI")),
    ("ip-masq", Needless("pods have networks of CNI")),
    ("userland-proxy", Needless("pods have networks of CNI")),
    ("icc", Needless("pods have networks of CNI")),
    ("containerd", Needless(OWN)),
    ("containerd-namespace", Needless(OWN)),
    ("exec-root", Needless(OWN)),
    ("pidfile", Needless(OWN)),
    (
        "group",
        Needless("orlop's socket is root's: name a group in `grpc.group`"),
    ),
    ("features/*", Needless(OWN)),
    ("builder/*", Needless("orlop builds no images")),
    ("experimental", Needless(OWN)),
    ("max-concurrent-uploads", Needless("orlop pushes no images")),
    (
        "max-download-attempts",
        Needless("downloads are tried again while something comes"),
    ),
    (
        "shutdown-timeout",
        Needless("containers always go on without the daemon"),
    ),
    ("tls*", Needless("orlop listens on its own socket")),
];

/// A soft and a hard limit.
type Limits = (Option<i64>, Option<i64>);

/// Plans the move from an engine with this file, which need not exist.
pub fn docker_plan(file: &Path, machine: Machine<'_>) -> Result<Plan> {
    let mut plan = Plan {
        root: Some("/var/lib/docker".into()),
        ..Plan::default()
    };
    let lines = match read(file) {
        Err(error) if error.is_missing() => Vec::new(),
        text => lines(file, &text?)?,
    };
    let (mut ulimits, mut files) = (BTreeMap::<String, Limits>::new(), Vec::new());
    for line in lines {
        if apply(&mut plan, RULES, &line.segments(), &line) {
            continue;
        }
        let path = line.segments();
        let text = |text: &str| Value::String(text.to_owned());
        let outcome = match path.as_slice() {
            ["data-root"] => {
                plan.root = line.text().map(PathBuf::from);
                Outcome::Needless("orlop keeps its own: `root`".to_owned())
            }
            ["exec-opts"] => {
                let options = line.value.as_array().map(Vec::as_slice).unwrap_or_default();
                let driver = options
                    .iter()
                    .filter_map(Value::as_str)
                    .find_map(|option| option.strip_prefix("native.cgroupdriver="));
                match driver {
                    Some(driver @ ("systemd" | "cgroupfs")) => {
                        plan.set("", "cgroup_driver", text(driver))
                    }
                    Some(_) => unfit(),
                    None => not_said(),
                }
            }
            ["debug"] if line.is_nothing() => not_said(),
            ["debug"] => plan.set("log", "level", text("debug")),
            ["default-runtime"] => {
                let name = line.text().unwrap_or_default().to_owned();
                let table = format!("runtimes.{name}");
                if !plan.is_set(&table, "path") {
                    let path = (machine.find)(&name);
                    let path = path.unwrap_or_else(|| Path::new("/usr/bin").join(&name));
                    plan.set(&table, "path", text(&path.display().to_string()));
                    plan.programs.push(path);
                }
                plan.set("", "default_runtime", line.value.clone())
            }
            ["runtimes", name, rest @ ..] => runtime(&mut plan, machine, name, rest, &line),
            ["registry-mirrors"] => {
                let mirrors = line.value.as_array().map(Vec::as_slice).unwrap_or_default();
                let hosts = mirrors.iter().map(|mirror| {
                    format!("[host.{mirror}]\n  capabilities = [\"pull\", \"resolve\"]\n\n")
                });
                files.push(("certs.d/docker.io/hosts.toml".to_owned(), hosts.collect()));
                Outcome::Taken(
                    machine
                        .target
                        .join("certs.d/docker.io/hosts.toml")
                        .display()
                        .to_string(),
                )
            }
            ["insecure-registries"] => insecure(&line, &mut files, machine.target),
            ["default-ulimits", name, which] => {
                let limit = ulimits.entry((*name).to_owned()).or_insert((None, None));
                match (*which, line.value.as_integer()) {
                    ("Soft", Some(value)) => limit.0 = Some(value),
                    ("Hard", Some(value)) => limit.1 = Some(value),
                    _ => {}
                }
                Outcome::Taken("containers.ulimits".to_owned())
            }
            ["tls", ..] => Outcome::Needless("orlop listens on its own socket".to_owned()),
            _ => unfit(),
        };
        note(&mut plan, &line, outcome);
    }
    let limits = ulimits.into_iter().filter_map(|(name, (soft, hard))| {
        let hard = hard.or(soft)?;
        let text = |limit: i64| match limit {
            -1 => "unlimited".to_owned(),
            limit => limit.to_string(),
        };
        let soft = text(soft.unwrap_or(hard));
        Some(Value::String(format!("{name}={soft}:{}", text(hard))))
    });
    let limits: Vec<_> = limits.collect();
    if !limits.is_empty() {
        plan.set("containers", "ulimits", Value::Array(limits));
    }
    if !files.is_empty() {
        let own = machine.target.join("certs.d").display().to_string();
        let mut dirs = vec![own, "/etc/orlop/certs.d".to_owned()];
        dirs.dedup();
        plan.set(
            "images",
            "hosts_dirs",
            Value::Array(dirs.into_iter().map(Value::String).collect()),
        );
        plan.files.extend(files);
    }
    Ok(plan)
}

fn runtime(
    plan: &mut Plan,
    machine: Machine<'_>,
    name: &str,
    rest: &[&str],
    line: &Line,
) -> Outcome {
    let table = format!("runtimes.{name}");
    match rest {
        ["path"] => {
            let path = PathBuf::from(line.text().unwrap_or_default());
            let path = if path.is_absolute() {
                path
            } else {
                let found = path.to_str().and_then(|name| (machine.find)(name));
                found.unwrap_or_else(|| Path::new("/usr/bin").join(path))
            };
            let value = Value::String(path.display().to_string());
            plan.programs.push(path);
            plan.set(&table, "path", value)
        }
        ["runtimeArgs"] if !line.is_nothing() => plan.set(&table, "args", line.value.clone()),
        _ if line.is_nothing() => not_said(),
        _ => {
            Outcome::Lost("make a runtime of `kind = \"shim\"` of it: docs/runtimes.md".to_owned())
        }
    }
}

fn insecure(line: &Line, files: &mut Vec<(String, String)>, target: &Path) -> Outcome {
    let list = line.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let hosts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    let is_plain = |host: &&str| {
        !host.is_empty()
            && !host.starts_with('.')
            && host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c))
    };
    if !hosts.iter().all(is_plain) {
        return Outcome::Lost(
            "a range of addresses can't be insecure: give each registry a hosts.toml with `skip_verify`".to_owned(),
        );
    }
    for host in &hosts {
        let text = format!("server = \"https://{host}\"\nskip_verify = true\n");
        files.push((format!("certs.d/{host}/hosts.toml"), text));
    }
    Outcome::Taken(target.join("certs.d").display().to_string())
}

/// The lines of a JSON text.
fn lines(file: &Path, text: &str) -> Result<Vec<Line>> {
    let wrong = |line, why: String| Err(Error::invalid(format!("{}:{line}", file.display()), why));
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return wrong(error.line(), error.to_string());
    }
    // JSON is YAML, but for tabs, which it has between values alone.
    let document = documents(&text.replace('\t', " ")).into_iter().next();
    let node = match document {
        Some(Document::Good(node)) => node,
        Some(Document::Bad(at, why)) => {
            return wrong(at.line, why);
        }
        _ => return Ok(Vec::new()),
    };
    if !matches!(node.content, Content::Map(_)) {
        return wrong(node.at.line, "it must be an object".to_owned());
    }
    let mut lines = Vec::new();
    let mut ahead: Vec<(Vec<String>, usize, Node)> = vec![(Vec::new(), 1, node)];
    while let Some((path, line, node)) = ahead.pop() {
        match node.content {
            Content::Map(entries) if !entries.is_empty() => {
                for entry in entries.iter() {
                    let mut path = path.clone();
                    path.push(entry.key.clone());
                    ahead.push((path, entry.at.line, entry.value.clone()));
                }
            }
            _ => lines.push(Line {
                file: file.to_owned(),
                line,
                path,
                value: plain(node.to_json()),
            }),
        }
    }
    lines.sort_by_key(|line| line.line);
    Ok(lines)
}

fn plain(value: serde_json::Value) -> Value {
    Value::try_from(value).unwrap_or_else(|_| Value::String(String::new()))
}
