//! The flags of cri-dockerd, the CRI server for Docker Engine.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use toml::Value;

use super::line::{LARGEST, Line};
use super::plan::{Outcome, Plan};
use super::rule::Rule::{Apart, As, Lost, Needless};
use super::rule::{Rules, apply, not_said, note, unfit};
use crate::{Error, Result};

const CNI: &str = "pods use CNI networks; configure this in the CNI configuration";

const RULES: Rules = &[
    ("network-plugin", Apart),
    ("cni-bin-dir", Apart),
    ("cni-conf-dir", As("network", "conf_dir")),
    ("cni-cache-dir", As("network", "cache_dir")),
    (
        "network-plugin-mtu",
        Lost("set `mtu` in the CNI configuration"),
    ),
    ("hairpin-mode", Apart),
    ("ipv6-dual-stack", Needless(CNI)),
    (
        "pod-cidr",
        Lost("use `network.conf_template` to create the network from the pod CIDR of the kubelet"),
    ),
    (
        "pod-infra-container-image",
        Needless("orlop uses no pause containers"),
    ),
    (
        "image-pull-progress-deadline",
        As("images", "progress_timeout"),
    ),
    ("streaming-bind-addr", Apart),
    (
        "cri-dockerd-root-directory",
        Needless("orlop has its own directory (`root`)"),
    ),
    (
        "runtime-cgroups",
        Needless("the systemd unit defines the cgroup of the daemon"),
    ),
    (
        "runtime-request-timeout",
        Needless("the kubelet sets the timeout"),
    ),
    (
        "container-runtime-endpoint",
        Needless(
            "orlop listens on its own socket; start the kubelet with \
             --container-runtime-endpoint=unix:///run/orlop/orlop.sock",
        ),
    ),
    ("docker-endpoint", Needless("orlop needs no Docker Engine")),
    ("log-level", Apart),
    ("version", Needless("this flag only prints information")),
    ("buildinfo", Needless("this flag only prints information")),
    ("help", Needless("this flag only prints information")),
];

/// Flags without a value.
const SWITCHES: [&str; 4] = ["ipv6-dual-stack", "version", "buildinfo", "help"];

/// Paths of the systemd unit from the package or the administrator; the first one counts.
const UNITS: [&str; 4] = [
    "/etc/systemd/system/cri-docker.service",
    "/run/systemd/system/cri-docker.service",
    "/usr/lib/systemd/system/cri-docker.service",
    "/lib/systemd/system/cri-docker.service",
];

/// A command line of cri-dockerd.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CriDockerd {
    file: PathBuf,
    /// Words after the program's name, each with its line number.
    words: Vec<(usize, String)>,
}

impl CriDockerd {
    /// Parses the user's argument: flags, or a file with them (a systemd unit, a `cmdline` of `/proc`, words).
    pub fn given(said: &str) -> Result<Self> {
        if said.trim_start().starts_with("--") {
            return Ok(Self::of_text(Path::new("--cri-dockerd-flags"), said));
        }
        let file = Path::new(said);
        let text = orlop_fs::read_text(file, LARGEST);
        Ok(Self::of_text(
            file,
            &text.map_err(|error| Error::at("cannot read", file, error))?,
        ))
    }

    /// Reads the installed unit, if there is one, with its drop-ins.
    pub fn installed() -> Result<Option<Self>> {
        Self::of_units(&UNITS.map(Path::new))
    }

    fn of_units(units: &[&Path]) -> Result<Option<Self>> {
        let read = |file: &Path| {
            let text = orlop_fs::read_text(file, LARGEST);
            text.map_err(|error| Error::at("cannot read", file, error))
        };
        let Some(unit) = units.iter().find(|unit| unit.is_file()) else {
            return Ok(None);
        };
        let mut found = Self::of_text(unit, &read(unit)?);
        let mut dropped: Vec<PathBuf> = Vec::new();
        for unit in units {
            let mut dir = unit.as_os_str().to_owned();
            dir.push(".d");
            for entry in std::fs::read_dir(dir)
                .into_iter()
                .flatten()
                .flatten()
                .take(1000)
            {
                let path = entry.path();
                let is_conf = path.extension().is_some_and(|it| it == "conf");
                // If there are several of one name, the first counts.
                if is_conf
                    && !dropped
                        .iter()
                        .any(|other| other.file_name() == path.file_name())
                {
                    dropped.push(path);
                }
            }
        }
        dropped.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
        for file in dropped {
            let laid_over = Self::of_text(&file, &read(&file)?);
            if !laid_over.words.is_empty() {
                found = laid_over;
            }
        }
        Ok(Some(found))
    }

    fn of_text(file: &Path, text: &str) -> Self {
        let file = file.to_owned();
        let words = if text.contains('\0') {
            let words = text.split('\0').filter(|word| !word.is_empty());
            words.map(|word| (1, word.to_owned())).collect()
        } else if text.lines().any(|line| line.trim_start().starts_with('[')) {
            command(text)
        } else {
            split(1, text)
        };
        let mut words: Vec<(usize, String)> = words;
        if words
            .first()
            .is_some_and(|(_, word)| !word.starts_with("--"))
        {
            words.remove(0);
        }
        Self { file, words }
    }

    /// Converts the flags to lines.
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut words = self.words.iter().peekable();
        while let Some((line, word)) = words.next() {
            let (name, value) = match word.strip_prefix("--") {
                None => (word.as_str(), Some("")),
                Some(flag) => match flag.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (flag, None),
                },
            };
            let value = match value {
                Some(value) => value.to_owned(),
                None if SWITCHES.contains(&name) => "true".to_owned(),
                None => {
                    let next = words.next_if(|(_, next)| !next.starts_with("--"));
                    next.map(|(_, next)| next.clone()).unwrap_or_default()
                }
            };
            lines.push(Line {
                file: self.file.clone(),
                line: *line,
                path: vec![name.to_owned()],
                value: Value::String(value),
            });
        }
        lines
    }
}

/// Returns the words of the last `ExecStart` in a unit, in the syntax of systemd.syntax(7): spaces around `=` are
/// allowed, and comments between the lines of a command.
fn command(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let is_comment = |line: &str| line.trim_start().starts_with(['#', ';']);
        if is_comment(line) {
            continue;
        }
        let (key, mut rest) = line.split_once('=').unwrap_or((line, ""));
        let is_command = key.trim() == "ExecStart";
        let mut words = Vec::new();
        let mut number = number;
        loop {
            let goes_on = rest.trim_end().strip_suffix('\\');
            words.extend(split(number, goes_on.unwrap_or(rest)));
            let Some((next, at)) =
                goes_on.and_then(|_| lines.by_ref().find(|(line, _)| !is_comment(line)))
            else {
                break;
            };
            (rest, number) = (next, at);
        }
        if is_command {
            // An empty one resets the list.
            found = words;
        }
    }
    found
}

/// Splits text at blanks; quotes keep words together.
fn split(line: usize, text: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words.into_iter().map(|word| (line, word)).collect()
}

/// Adds the flags to the plan.
pub(super) fn take(plan: &mut Plan, flags: &CriDockerd) {
    for line in flags.lines() {
        let text = line.text().unwrap_or_default();
        if text.contains('$') || line.path.iter().any(|word| word.contains('$')) {
            let why = "the value of this variable is unknown; pass the flags themselves with \
                       --cri-dockerd-flags";
            note(plan, &line, Outcome::Lost(why.to_owned()));
            continue;
        }
        if apply(plan, RULES, &line.segments(), &line) {
            continue;
        }
        let name = line.path.first().map(String::as_str).unwrap_or_default();
        let outcome = match (name, text) {
            ("log-level", level @ ("trace" | "debug" | "info" | "warn" | "error")) => {
                plan.set("log", "level", Value::String(level.to_owned()))
            }
            ("log-level", "fatal" | "panic") => {
                plan.set("log", "level", Value::String("error".to_owned()))
            }
            ("network-plugin", "cni") => Outcome::Needless("pods use CNI networks".to_owned()),
            ("network-plugin", "kubenet") => Outcome::Lost(
                "pods use CNI networks; use `network.conf_template` with the bridge plugin to \
                 create one from the pod CIDR of the kubelet"
                    .to_owned(),
            ),
            ("network-plugin", _) => Outcome::Lost(
                "pods use CNI networks instead of Docker networks; put a configuration into \
                 `network.conf_dir`, or set `network.default_subnets`"
                    .to_owned(),
            ),
            ("hairpin-mode", "" | "none") => not_said(),
            ("hairpin-mode", _) => Outcome::Lost(
                "set `hairpinMode` (or `promiscMode`) in the CNI configuration".to_owned(),
            ),
            ("cni-bin-dir", dirs) => {
                let dirs = dirs.split(',').map(str::trim).filter(|dir| !dir.is_empty());
                let dirs: Vec<Value> = dirs.map(|dir| Value::String(dir.to_owned())).collect();
                if dirs.is_empty() {
                    not_said()
                } else {
                    plan.set("network", "bin_dirs", Value::Array(dirs))
                }
            }
            ("streaming-bind-addr", address) => streams(plan, address),
            _ => unfit(),
        };
        note(plan, &line, outcome);
    }
}

fn streams(plan: &mut Plan, text: &str) -> Outcome {
    let (address, port) = match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
        (Ok(both), _) => (Some(both.ip()), both.port()),
        (_, Ok(address)) => (Some(address), 0),
        _ => match text.rsplit_once(':') {
            Some(("" | "localhost", port)) => match port.parse() {
                Ok(port) => (None, port),
                Err(_) => return unfit(),
            },
            _ if text.is_empty() => return not_said(),
            _ => return unfit(),
        },
    };
    let mut taken = Vec::new();
    if let Some(address) = address {
        let value = Value::String(address.to_string());
        taken.push(plan.set("streaming", "address", value));
    }
    if port > 0 {
        taken.push(plan.set("streaming", "port", Value::Integer(port.into())));
    }
    let keys = taken.into_iter().filter_map(|outcome| match outcome {
        Outcome::Taken(key) => Some(key),
        _ => None,
    });
    let keys: Vec<String> = keys.collect();
    if keys.is_empty() {
        return not_said();
    }
    Outcome::Taken(keys.join(", "))
}

#[cfg(test)]
#[path = "cri_dockerd_tests.rs"]
mod tests;
