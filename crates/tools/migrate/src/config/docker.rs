//! Docker's `daemon.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orlop_yaml::{Content, Document, Node, documents};
use toml::Value;

use super::cri_dockerd::{CriDockerd, take};
use super::docker_registries::Registries;
use super::hosts::DIR;
use super::line::{Line, read};
use super::plan::{Machine, Outcome, Plan};
use super::rule::Rule::{Apart, As, Lost, Needless};
use super::rule::{Rules, apply, not_said, note, unfit};
use crate::{Error, Result};

const OWN: &str = "this setting is internal to the Docker Engine";
const SOCKET: &str = "orlop listens on its own socket";

pub(super) const RULES: Rules = &[
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
        Lost("set `metrics.listen`; an address for other machines needs TLS and authentication"),
    ),
    ("default-shm-size", Apart),
    (
        "seccomp-profile",
        Lost("the default profile is built in; select your own profile in pods (localhostProfile)"),
    ),
    (
        "userns-remap",
        Lost("the kubelet assigns user namespaces; set hostUsers: false in pods"),
    ),
    (
        "no-new-privileges",
        Lost("set allowPrivilegeEscalation: false in pods"),
    ),
    (
        "selinux-enabled",
        Needless("SELinux labels are always applied if the kernel has SELinux"),
    ),
    (
        "init",
        Lost(
            "orlop adds no init process to containers; use shareProcessNamespace, or an image with \
             an init process",
        ),
    ),
    (
        "log-driver",
        Lost(
            "container logs are files of the kubelet; use a log agent that reads \
             /var/log/containers",
        ),
    ),
    (
        "log-opts/*",
        Lost("the kubelet rotates logs (containerLogMaxSize, containerLogMaxFiles)"),
    ),
    (
        "live-restore",
        Needless("containers always keep running without the daemon"),
    ),
    (
        "storage-driver",
        Needless("layers are directories or EROFS images (`images.store`)"),
    ),
    (
        "storage-opts",
        Lost("container quotas have no equivalent; set limits of ephemeral-storage"),
    ),
    (
        "hosts",
        Needless(
            "orlop listens on its own socket; start the kubelet with \
             --container-runtime-endpoint=unix:///run/orlop/orlop.sock",
        ),
    ),
    (
        "proxies/*",
        Lost("set HTTP_PROXY, HTTPS_PROXY and NO_PROXY in a drop-in of orlop.service"),
    ),
    (
        "http-proxy",
        Lost("set HTTP_PROXY in a drop-in of orlop.service"),
    ),
    (
        "https-proxy",
        Lost("set HTTPS_PROXY in a drop-in of orlop.service"),
    ),
    (
        "no-proxy",
        Lost("set NO_PROXY in a drop-in of orlop.service"),
    ),
    (
        "cgroup-parent",
        Needless("the kubelet sets the cgroup of pods"),
    ),
    ("dns", Needless("the kubelet configures DNS")),
    ("dns-opts", Needless("the kubelet configures DNS")),
    ("dns-search", Needless("the kubelet configures DNS")),
    ("bip", Needless("pods use CNI networks")),
    ("bridge", Needless("pods use CNI networks")),
    ("ipv6", Needless("pods use CNI networks")),
    ("fixed-cidr", Needless("pods use CNI networks")),
    ("fixed-cidr-v6", Needless("pods use CNI networks")),
    ("default-address-pools", Needless("pods use CNI networks")),
    ("mtu", Needless("pods use CNI networks")),
    ("iptables", Needless("pods use CNI networks")),
    ("ip6tables", Needless("pods use CNI networks")),
    ("ip-forward", Needless("pods use CNI networks")),
    ("ip-masq", Needless("pods use CNI networks")),
    ("userland-proxy", Needless("pods use CNI networks")),
    ("icc", Needless("pods use CNI networks")),
    ("containerd", Needless(OWN)),
    ("containerd-namespace", Needless(OWN)),
    ("exec-root", Apart),
    ("pidfile", Needless(OWN)),
    (
        "group",
        Needless("the socket of orlop belongs to root; set a group in `grpc.group`"),
    ),
    ("features/*", Needless(OWN)),
    ("builder/*", Needless("orlop does not build images")),
    ("experimental", Needless(OWN)),
    (
        "max-concurrent-uploads",
        Needless("orlop does not push images"),
    ),
    (
        "max-download-attempts",
        Needless("downloads are retried as long as they make progress"),
    ),
    (
        "shutdown-timeout",
        Needless("containers always keep running without the daemon"),
    ),
    ("tls", Needless(SOCKET)),
    ("tlsverify", Needless(SOCKET)),
    ("tlscacert", Needless(SOCKET)),
    ("tlscert", Needless(SOCKET)),
    ("tlskey", Needless(SOCKET)),
];

/// A soft and a hard limit.
type Limits = (Option<i64>, Option<i64>);

/// Plans the migration from an engine with this file, which may be missing, and from cri-dockerd if its flags are
/// known.
pub fn docker_plan(
    file: &Path,
    cri_dockerd: Option<&CriDockerd>,
    machine: Machine<'_>,
) -> Result<Plan> {
    let mut plan = Plan {
        root: Some("/var/lib/docker".into()),
        ..Plan::default()
    };
    let lines = match read(file) {
        Err(error) if error.is_missing() => Vec::new(),
        text => lines(file, &text?)?,
    };
    let mut ulimits = BTreeMap::<String, Limits>::new();
    let mut registries = Registries::default();
    for line in lines {
        if apply(&mut plan, RULES, &line.segments(), &line) {
            continue;
        }
        let path = line.segments();
        let text = |text: &str| Value::String(text.to_owned());
        let outcome = match path.as_slice() {
            ["data-root"] => {
                plan.root = line.text().map(PathBuf::from);
                Outcome::Needless("orlop has its own directory (`root`)".to_owned())
            }
            ["exec-root"] => {
                plan.state = line.text().map(PathBuf::from);
                Outcome::Needless(OWN.to_owned())
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
            ["registry-mirrors"] => registries.mirrors(&line, machine.target),
            ["insecure-registries"] => registries.insecure(&line, machine.target),
            ["default-shm-size"] => match line.text().and_then(bytes) {
                Some(0) => not_said(),
                Some(bytes) => match size(bytes) {
                    Some(size) => plan.set("containers", "shm_size", text(&size)),
                    None => unfit(),
                },
                None => unfit(),
            },
            ["default-ulimits", name, which] => {
                let limit = ulimits.entry((*name).to_owned()).or_insert((None, None));
                match (*which, line.value.as_integer()) {
                    ("Soft", Some(value)) => limit.0 = Some(value),
                    ("Hard", Some(value)) => limit.1 = Some(value),
                    _ => {}
                }
                Outcome::Taken("containers.ulimits".to_owned())
            }
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
    if let Some(flags) = cri_dockerd {
        take(&mut plan, flags);
    }
    let files = registries.files();
    if !files.is_empty() {
        let own = machine.target.join(DIR).display().to_string();
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
        _ => Outcome::Lost(
            "define a runtime of `kind = \"shim\"` for it (docs/guides/runtimes.md)".to_owned(),
        ),
    }
}

/// Parses a memory size in Docker's format: `64M`, `1.5 GiB`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * (1_u64 << shift) as f64;
    (bytes <= (1_u64 << 52) as f64).then_some(bytes as u64)
}

/// Formats a size for orlop.
fn size(bytes: u64) -> Option<String> {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("", 0)];
    let unit = units
        .into_iter()
        .find(|(_, shift)| bytes.trailing_zeros() >= *shift);
    let (unit, shift) = unit?;
    let number = u32::try_from(bytes >> shift).ok()?;
    Some(format!("{number}{unit}"))
}

/// Parses the lines of a JSON text.
fn lines(file: &Path, text: &str) -> Result<Vec<Line>> {
    let wrong = |line, why: String| Err(Error::invalid(format!("{}:{line}", file.display()), why));
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
        return wrong(error.line(), error.to_string());
    }
    // The YAML parser accepts JSON except for tabs, which occur only between values.
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
