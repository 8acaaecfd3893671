//! containerd's `config.toml`, versions 1 to 4, with its imports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use toml::Value;

use super::containerd_rules::RULES;
use super::line::{Line, lines, read};
use super::plan::{Machine, Outcome, Plan};
use super::registries;
use super::rule::{apply, not_said, note, unfit};
use crate::{Error, Result};

/// Plugins with the CRI settings, by version.
const CRI: [&str; 4] = [
    "cri",
    "io.containerd.grpc.v1.cri",
    "io.containerd.cri.v1.runtime",
    "io.containerd.cri.v1.images",
];
/// Since version 4: plugins with the settings of a former table, that table, and the prefix of its keys.
const SERVERS: [(&str, &str, &str); 6] = [
    ("io.containerd.server.v1.grpc", "grpc", ""),
    ("io.containerd.server.v1.grpc-tcp", "grpc", "tcp_"),
    ("io.containerd.server.v1.ttrpc", "ttrpc", ""),
    ("io.containerd.server.v1.debug", "debug", ""),
    ("io.containerd.server.v1.metrics", "metrics", ""),
    ("io.containerd.metrics.v1.grpc-prometheus", "metrics", ""),
];
/// Limit of imported files.
const MOST_FILES: usize = 64;

/// Plans the migration from a containerd with this configuration file.
pub fn containerd_plan(file: &Path, machine: Machine<'_>) -> Result<Plan> {
    let mut plan = Plan {
        root: Some("/var/lib/containerd".into()),
        ..Plan::default()
    };
    let mut apart = Vec::new();
    for (line, named) in in_force(all_lines(file)?) {
        if !apply(&mut plan, RULES, &named.segments(), &line) {
            apart.push((line, named));
        }
    }
    let mut runtimes: BTreeMap<String, Vec<(Line, Line)>> = BTreeMap::new();
    let mut registry = Vec::new();
    let mut default = None;
    for (line, named) in apart {
        let path = named.segments();
        let outcome = match path.as_slice() {
            ["imports"] => Outcome::Needless("orlop read these files for the migration".to_owned()),
            ["root"] => {
                plan.root = line.text().map(PathBuf::from);
                Outcome::Needless("orlop has its own directory (`root`)".to_owned())
            }
            ["state"] => {
                plan.state = line.text().map(PathBuf::from);
                Outcome::Needless("orlop has its own directory (`state`)".to_owned())
            }
            ["grpc", "gid"] => number(&mut plan, &line, "grpc", "group", |gid| {
                (gid > 0).then(|| Value::String(gid.to_string()))
            }),
            ["debug", "level"] => level(&mut plan, &line),
            ["debug", "format"] => match line.text() {
                Some("json") => plan.set("log", "format", Value::String("json".to_owned())),
                _ => not_said(),
            },
            ["metrics", "address"] => metrics(&mut plan, &line),
            ["stream_processors", ..] => keys(&mut plan, &line),
            ["cri", "max_container_log_line_size"] => {
                number(&mut plan, &line, "containers", "max_log_line", |bytes| {
                    (bytes > 0).then_some(Value::Integer(bytes))
                })
            }
            ["cri", "image_pull_progress_timeout"] => match line.text() {
                Some(text) if !line.is_nothing() => {
                    let value = Value::String(text.to_owned());
                    plan.set("images", "progress_timeout", value)
                }
                _ => not_said(),
            },
            ["cri", "stream_server_port"] => match line.text().map(str::parse::<u16>) {
                Some(Ok(port)) => plan.set("streaming", "port", Value::Integer(port.into())),
                _ => unfit(),
            },
            ["cri", "systemd_cgroup"] if line.is_nothing() => not_said(),
            ["cri", "systemd_cgroup"] => by_systemd(&mut plan, true),
            ["cri", "pinned_images", _] => {
                plan.set("images", "pinned", Value::Array(vec![line.value.clone()]))
            }
            ["cri", "unset_seccomp_profile"] => match line.text() {
                Some("") => not_said(),
                Some("runtime/default" | "docker/default") => {
                    plan.set("containers", "seccomp_when_unset", Value::Boolean(true))
                }
                _ => Outcome::Lost(
                    "containers that request no profile can only get the default profile; set \
                     `containers.seccomp_when_unset`"
                        .to_owned(),
                ),
            },
            ["cri", "enable_cdi"] if line.is_nothing() => {
                plan.set("containers", "cdi_dirs", Value::Array(Vec::new()))
            }
            ["cri", "enable_cdi"] => Outcome::Needless("CDI is always enabled".to_owned()),
            ["cri", "cni", "max_conf_num"] => {
                number(&mut plan, &line, "network", "max_networks", |most| {
                    (most > 0).then_some(Value::Integer(most))
                })
            }
            ["cri", "cni", "ip_pref"] => match line.text() {
                Some(ip @ ("ipv4" | "ipv6" | "cni")) => {
                    plan.set("network", "ip_preference", Value::String(ip.to_owned()))
                }
                _ => not_said(),
            },
            ["cri", "containerd", "default_runtime_name"] => {
                default = line.text().map(str::to_owned);
                plan.set("", "default_runtime", line.value.clone())
            }
            ["cri", .., "snapshotter"] if path.len() <= 3 => snapshotter(&mut plan, &line),
            ["cri", "containerd", "runtimes", name, ..] => {
                runtimes
                    .entry((*name).to_owned())
                    .or_default()
                    .push((line, named.clone()));
                continue;
            }
            ["cri", "containerd", "default_runtime", ..] if line.is_nothing() => not_said(),
            ["cri", "containerd", "default_runtime", ..] => Outcome::Lost(
                "this table is obsolete, because runtimes have names; create a table \
                 [runtimes.NAME], and set `default_runtime` to its name"
                    .to_owned(),
            ),
            _ => {
                registry.push(line);
                continue;
            }
        };
        note(&mut plan, &line, outcome);
    }
    let default = default.unwrap_or_else(|| "runc".to_owned());
    for (name, lines) in runtimes {
        runtime(&mut plan, machine, &name, &default, &lines);
    }
    registries::containerd(&mut plan, machine, registry);
    plan.notes
        .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(plan)
}

/// Returns the lines of the file and its imports, in order of precedence. Imports of an import come after all of the
/// file's own. Without `imports`, containerd reads no other files: `conf.d` is only a default in files that it prints.
fn all_lines(file: &Path) -> Result<Vec<Line>> {
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    let mut ahead = VecDeque::from([file.to_owned()]);
    while let Some(file) = ahead.pop_front() {
        if !seen.insert(file.clone()) {
            continue;
        }
        if seen.len() > MOST_FILES {
            return Err(Error::invalid(
                file.display().to_string(),
                "too many imported files",
            ));
        }
        let found = lines(&file, &read(&file)?)?;
        check_version(&file, &found)?;
        for line in found.iter().filter(|line| line.path == ["imports"]) {
            for pattern in line.value.as_array().into_iter().flatten() {
                let pattern = pattern.as_str().unwrap_or_default();
                let base = file.parent().unwrap_or(Path::new("/"));
                ahead.extend(matching(&base.join(pattern))?);
            }
        }
        all.extend(found);
    }
    Ok(all)
}

fn check_version(file: &Path, lines: &[Line]) -> Result<()> {
    let version = lines.iter().find(|line| line.path == ["version"]);
    match version {
        Some(line) if !matches!(line.value.as_integer(), Some(1..=4)) => {
            let place = format!("{}:{}", file.display(), line.line);
            let why = format!(
                "version {} is not supported; the supported versions are 1 to 4",
                line.value
            );
            Err(Error::invalid(place, why))
        }
        _ => Ok(()),
    }
}

/// Returns the files that match a path; its last part may contain `*`.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>> {
    let name = pattern.file_name().and_then(|name| name.to_str());
    let (Some(dir), Some((before, after))) =
        (pattern.parent(), name.and_then(|name| name.split_once('*')))
    else {
        return Ok(vec![pattern.to_owned()]);
    };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| Error::at("cannot list", dir, error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::at("cannot list", dir, error))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.len() >= before.len() + after.len()
            && name.starts_with(before)
            && name.ends_with(after)
        {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the last line of each key, with its former name before it moved to a plugin. Within one file the plugin's
/// line counts: containerd converts an older one only if there is no other.
fn in_force(lines: Vec<Line>) -> Vec<(Line, Line)> {
    let lines: Vec<(Line, Line)> = lines
        .into_iter()
        .map(|line| {
            let named = as_before(&line);
            (line, named)
        })
        .collect();
    let is_plugin = |line: &Line| line.path.first().is_some_and(|it| it == "plugins");
    let mut last: BTreeMap<&[String], usize> = BTreeMap::new();
    for (at, (line, named)) in lines.iter().enumerate() {
        let of_plugin = last.get(named.path.as_slice()).is_some_and(|before| {
            let before = &lines[*before].0;
            before.file == line.file && is_plugin(before)
        });
        if !of_plugin || is_plugin(line) {
            last.insert(&named.path, at);
        }
    }
    let kept: BTreeSet<usize> = last.into_values().collect();
    let lines = lines.into_iter().enumerate();
    lines
        .filter(|(at, _)| kept.contains(at))
        .map(|(_, line)| line)
        .collect()
}

/// Renames a line: `cri` becomes the table of CRI settings, and settings of a server plugin return to their former
/// table.
fn as_before(line: &Line) -> Line {
    let mut named = line.clone();
    let segments = line.segments();
    let ["plugins", plugin, rest @ ..] = segments.as_slice() else {
        return named;
    };
    if CRI.contains(plugin) {
        named.path.splice(..2, ["cri".to_owned()]);
    } else if let Some((_, table, prefix)) = SERVERS.iter().find(|(name, ..)| name == plugin)
        && let [key] = rest
    {
        named.path = vec![(*table).to_owned(), format!("{prefix}{key}")];
    }
    named
}

fn number(
    plan: &mut Plan,
    line: &Line,
    table: &str,
    key: &str,
    value: impl Fn(i64) -> Option<Value>,
) -> Outcome {
    match line.value.as_integer().map(value) {
        Some(Some(value)) => plan.set(table, key, value),
        Some(None) => not_said(),
        None => unfit(),
    }
}

fn level(plan: &mut Plan, line: &Line) -> Outcome {
    let level = match line.text() {
        Some("") => return not_said(),
        Some(level @ ("trace" | "debug" | "info" | "warn" | "error")) => level,
        Some("fatal" | "panic") => "error",
        _ => return unfit(),
    };
    plan.set("log", "level", Value::String(level.to_owned()))
}

fn metrics(plan: &mut Plan, line: &Line) -> Outcome {
    let address = line.text().unwrap_or_default();
    match address.parse::<std::net::SocketAddr>() {
        _ if address.is_empty() => not_said(),
        Ok(socket) if socket.ip().is_loopback() => {
            plan.set("metrics", "listen", line.value.clone())
        }
        _ => Outcome::Lost(
            "metrics for other machines need TLS and authentication; set `metrics.listen`, \
             `tls_cert`, `tls_key`, and `client_ca` or `token_file`"
                .to_owned(),
        ),
    }
}

fn keys(plan: &mut Plan, line: &Line) -> Outcome {
    let list = line.value.as_array().map(Vec::as_slice);
    let texts: Vec<&str> = list
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let directory = texts
        .windows(2)
        .find(|pair| pair[0] == "--decryption-keys-path")
        .map(|pair| pair[1]);
    let providers = texts
        .iter()
        .find_map(|text| text.strip_prefix("OCICRYPT_KEYPROVIDER_CONFIG="));
    match (directory, providers) {
        (Some(path), _) | (_, Some(path)) if !Path::new(path).exists() => {
            Outcome::Needless(format!("{path} does not exist"))
        }
        (Some(path), _) => plan.set("images", "decryption_keys", Value::String(path.to_owned())),
        (_, Some(path)) => plan.set("images", "key_providers", Value::String(path.to_owned())),
        _ => Outcome::Needless("the daemon decrypts layers itself".to_owned()),
    }
}

fn by_systemd(plan: &mut Plan, is_set: bool) -> Outcome {
    let driver = if is_set { "systemd" } else { "cgroupfs" };
    plan.set("", "cgroup_driver", Value::String(driver.to_owned()))
}

fn snapshotter(plan: &mut Plan, line: &Line) -> Outcome {
    match line.text() {
        None | Some("" | "overlayfs" | "native") => {
            Outcome::Needless("the daemon mounts layers as an overlay".to_owned())
        }
        Some("erofs") => plan.set("images", "store", Value::String("erofs".to_owned())),
        Some("stargz" | "soci") => plan.set("images", "lazy", Value::String("auto".to_owned())),
        Some(_) => Outcome::Lost(
            "layers are directories or EROFS images (`images.store`) on any filesystem".to_owned(),
        ),
    }
}

/// Converts one table of `runtimes`.
fn runtime(
    plan: &mut Plan,
    machine: Machine<'_>,
    name: &str,
    default: &str,
    lines: &[(Line, Line)],
) {
    let table = format!("runtimes.{name}");
    let text_of = |key: &str| {
        let line = lines
            .iter()
            .find(|(_, named)| named.path.last().is_some_and(|it| it == key));
        line.and_then(|(line, _)| line.text()).unwrap_or_default()
    };
    let runtime_type = text_of("runtime_type").to_owned();
    let is_shim = !matches!(
        runtime_type.as_str(),
        "" | "io.containerd.runc.v2"
            | "io.containerd.runc.v1"
            | "io.containerd.runtime.v1.linux"
            | "io.containerd.runsc.v1"
    );
    let text = |text: &str| Value::String(text.to_owned());
    // Also if the table itself is empty and everything is a default.
    let program = match runtime_type.as_str() {
        "io.containerd.runsc.v1" => {
            plan.set(&table, "kind", text("sandboxed"));
            Some("runsc".to_owned())
        }
        _ if is_shim => {
            plan.set(&table, "kind", text("shim"));
            Some(shim(&runtime_type))
        }
        _ if name != "runc" && text_of("BinaryName").is_empty() => Some("runc".to_owned()),
        _ => None,
    };
    let binary = [text_of("runtime_path"), text_of("BinaryName")]
        .into_iter()
        .find(|path| !path.is_empty())
        .map(str::to_owned)
        .or(program);
    let binary = binary.unwrap_or_else(|| name.to_owned());
    let path = if binary.starts_with('/') {
        PathBuf::from(&binary)
    } else {
        let usual = Path::new("/usr/bin").join(&binary);
        (machine.find)(&binary).unwrap_or(usual)
    };
    plan.set(&table, "path", text(&path.to_string_lossy()));
    plan.programs.push(path);
    for (line, named) in lines {
        let path = named.segments();
        let outcome = match &path[4..] {
            ["runtime_type"] => Outcome::Taken(format!("{table}.kind")),
            ["runtime_path" | "runtime_engine"] | ["options", "BinaryName"] => {
                if line.is_nothing() {
                    not_said()
                } else {
                    Outcome::Taken(format!("{table}.path"))
                }
            }
            ["runtime_root"] | ["options", "Root"] if !line.is_nothing() => {
                plan.set(&table, "root", line.value.clone())
            }
            [key @ ("pod_annotations" | "container_annotations")] if !line.is_nothing() => {
                plan.set(&table, key, line.value.clone())
            }
            [key @ "privileged_without_host_devices"] => plan.set(&table, key, line.value.clone()),
            [key @ "cni_conf_dir"] if !line.is_nothing() => {
                plan.set(&table, key, line.value.clone())
            }
            ["sandboxer"] if is_shim && line.text() == Some("shim") => {
                plan.set(&table, "sandboxer", line.value.clone())
            }
            ["sandboxer"] if matches!(line.text(), Some("" | "podsandbox")) => {
                Outcome::Needless("this is also the default of orlop".to_owned())
            }
            ["io_type"] if is_shim && line.text() == Some("streaming") => {
                plan.set(&table, "io", line.value.clone())
            }
            ["options", "ConfigPath"] if is_shim && !line.is_nothing() => {
                plan.set(&table, "shim_config", line.value.clone())
            }
            ["options", "TypeUrl"] if is_shim && !line.is_nothing() => {
                plan.set(&table, "shim_config_type", line.value.clone())
            }
            ["options", "SystemdCgroup"] if name == default => match line.value {
                Value::Boolean(is_set) => by_systemd(plan, is_set),
                _ => unfit(),
            },
            ["options", "SystemdCgroup"] => Outcome::Needless(
                "all runtimes use the cgroup driver of the default runtime".to_owned(),
            ),
            _ if line.is_nothing() => not_said(),
            ["snapshotter"] if matches!(line.text(), Some("overlayfs")) => {
                Outcome::Needless("the daemon mounts layers as an overlay".to_owned())
            }
            [key @ ("base_runtime_spec" | "cgroup_writable")] => {
                plan.set(&table, key, line.value.clone())
            }
            ["privileged_without_host_devices_all_devices_allowed"] => Outcome::Lost(
                "such containers can use only devices that the pod lists; add the devices to the \
                 pod"
                .to_owned(),
            ),
            _ => Outcome::Lost(
                "this runtime option has no equivalent; pass it with `args`, or to a shim with \
                 `shim_config`"
                    .to_owned(),
            ),
        };
        note(plan, line, outcome);
    }
}

/// Returns the program of a runtime type, as containerd finds it.
fn shim(runtime_type: &str) -> String {
    if runtime_type.starts_with('/') {
        return runtime_type.to_owned();
    }
    let mut parts = runtime_type.rsplit('.');
    let version = parts.next().unwrap_or_default();
    let name = parts.next().unwrap_or_default();
    format!("containerd-shim-{name}-{version}")
}
