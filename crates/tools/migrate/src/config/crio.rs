//! CRI-O's `crio.conf` and the files of `crio.conf.d`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toml::Value;

use super::crio_rules::RULES;
use super::line::{Line, lines, read};
use super::plan::{Machine, Outcome, Plan};
use super::rule::{apply, not_said, note, unfit};
use crate::{Error, Result};

/// Plans the migration from a CRI-O with this file and the `*.conf` files in the directory with `.d` appended.
pub fn crio_plan(file: &Path, machine: Machine<'_>) -> Result<Plan> {
    let mut plan = Plan {
        root: Some("/var/lib/containers/storage".into()),
        ..Plan::default()
    };
    // CRI-O's defaults that differ from orlop's.
    plan.set("", "cgroup_driver", Value::String("systemd".to_owned()));
    let mut last: BTreeMap<Vec<String>, Line> = BTreeMap::new();
    for file in files(file)? {
        for line in lines(&file, &read(&file)?)? {
            last.insert(line.path.clone(), line);
        }
    }
    let mut runtimes: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let mut lines: Vec<Line> = last.into_values().collect();
    lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    for line in lines {
        if apply(&mut plan, RULES, &line.segments(), &line) {
            continue;
        }
        let path = line.segments();
        let outcome = match path.as_slice() {
            ["crio", "root"] => {
                if let Some(root) = line.text().filter(|root| !root.is_empty()) {
                    plan.root = Some(root.into());
                }
                Outcome::Needless("orlop has its own directory (`root`)".to_owned())
            }
            ["crio", "runroot"] => {
                plan.state = line
                    .text()
                    .filter(|root| !root.is_empty())
                    .map(PathBuf::from);
                Outcome::Needless("orlop has its own directory (`state`)".to_owned())
            }
            ["crio", "runtime", "log_level"] => match line.text() {
                Some(level @ ("trace" | "debug" | "info" | "warn" | "error")) => {
                    plan.set("log", "level", Value::String(level.to_owned()))
                }
                Some("fatal" | "panic") => {
                    plan.set("log", "level", Value::String("error".to_owned()))
                }
                _ => unfit(),
            },
            ["crio", "runtime", "default_sysctls"] => sysctls(&mut plan, &line),
            ["crio", "runtime", "pids_limit"] => match line.value {
                Value::Integer(limit) if limit > 0 => {
                    plan.set("containers", "pids_limit", Value::Integer(limit))
                }
                _ => not_said(),
            },
            // -1, which CRI-O prints itself, is no limit.
            ["crio", "runtime", "log_size_max"] => match line.value {
                Value::Integer(size) if size > 0 => {
                    plan.set("containers", "log_size", Value::Integer(size))
                }
                _ => not_said(),
            },
            ["crio", "runtime", "cgroup_manager"] => match line.text() {
                Some("systemd" | "cgroupfs") => plan.set("", "cgroup_driver", line.value.clone()),
                _ => unfit(),
            },
            [
                "crio",
                "image" | "network" | "metrics",
                "global_auth_file" | "plugin_dir" | "cni_status_grace_period" | "enable_metrics",
            ] if line.is_nothing() => not_said(),
            ["crio", "image", "global_auth_file"] => plan.set(
                "images",
                "credentials",
                Value::Array(vec![line.value.clone()]),
            ),
            ["crio", "image", "image_volumes"] => match line.text() {
                Some("ignore") => {
                    plan.set("containers", "ignore_image_volumes", Value::Boolean(true))
                }
                Some("mkdir") => {
                    Outcome::Needless("the daemon creates directories for image volumes".to_owned())
                }
                _ => Outcome::Lost(
                    "image volumes are directories in the pod directory; `bind` has no equivalent"
                        .to_owned(),
                ),
            },
            ["crio", "image", "pinned_images"] => plan.set("images", "pinned", line.value.clone()),
            ["crio", "network", "plugin_dir"] => plan.set(
                "network",
                "bin_dirs",
                Value::Array(vec![line.value.clone()]),
            ),
            ["crio", "network", "cni_status_grace_period"] => {
                plan.set("network", "status_grace", line.value.clone())
            }
            ["crio", "metrics", "enable_metrics"] => plan.set(
                "metrics",
                "listen",
                Value::String("127.0.0.1:9090".to_owned()),
            ),
            ["crio", "runtime", "runtimes", name, ..] => {
                runtimes.entry((*name).to_owned()).or_default().push(line);
                continue;
            }
            _ => unfit(),
        };
        note(&mut plan, &line, outcome);
    }
    let default = plan
        .text("", "default_runtime")
        .unwrap_or_else(|| "crun".to_owned());
    let of_default = runtimes.get(&default).cloned().unwrap_or_default();
    for (name, lines) in runtimes {
        runtime(&mut plan, machine, &name, lines, (&default, &of_default));
    }
    usual_files(&mut plan, machine.root);
    if let Some(name) = plan.text("", "default_runtime")
        && !plan.is_set(&format!("runtimes.{name}"), "path")
    {
        let path = (machine.find)(&name).unwrap_or_else(|| Path::new("/usr/bin").join(&name));
        let value = Value::String(path.display().to_string());
        plan.set(&format!("runtimes.{name}"), "path", value);
        plan.programs.push(path);
    }
    plan.notes
        .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Ok(plan)
}

/// Returns the file, if it exists, and its drop-ins by name.
fn files(file: &Path) -> Result<Vec<PathBuf>> {
    let mut dir = file.as_os_str().to_owned();
    dir.push(".d");
    let dir = PathBuf::from(dir);
    let mut found = Vec::new();
    match fs::read_dir(&dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::at("cannot list", &dir, error)),
        Ok(entries) => {
            for entry in entries {
                let path = entry
                    .map_err(|error| Error::at("cannot list", &dir, error))?
                    .path();
                if path.is_file() {
                    found.push(path);
                }
            }
        }
    }
    found.sort();
    if file.exists() || found.is_empty() {
        found.insert(0, file.to_owned());
    }
    Ok(found)
}

/// Adds the files that CRI-O reads by default.
fn usual_files(plan: &mut Plan, root: &Path) {
    for (key, file) in [
        ("registries_conf", "/etc/containers/registries.conf"),
        ("signature_policy", "/etc/containers/policy.json"),
        ("signature_policy_dir", "/etc/crio/policies"),
    ] {
        let there = root.join(file.trim_start_matches('/'));
        if plan.is_set("images", key) {
            continue;
        }
        if !there.exists() {
            if key == "registries_conf" {
                without_main_file(plan, file, &there);
            }
            continue;
        }
        let line = Line {
            file: file.into(),
            line: 1,
            path: vec!["(read by default)".to_owned()],
            value: Value::String(file.to_owned()),
        };
        let outcome = plan.set("images", key, line.value.clone());
        note(plan, &line, outcome);
    }
}

/// Warns about drop-ins without a main file: CRI-O uses them, orlop does not.
fn without_main_file(plan: &mut Plan, file: &str, there: &Path) {
    let mut dir = there.as_os_str().to_owned();
    dir.push(".d");
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names = entries.take(1000).map(|entry| entry.path());
    if !names.any(|path| path.extension().is_some_and(|it| it == "conf")) {
        return;
    }
    let dir = format!("{file}.d");
    let line = Line {
        file: PathBuf::from(&dir),
        line: 1,
        path: vec!["(read by default)".to_owned()],
        value: Value::String(dir),
    };
    let why = format!(
        "orlop reads the registries, mirrors and aliases of this directory after {file}, which \
         does not exist; create that file (it may be empty), and set `images.registries_conf` to it"
    );
    note(plan, &line, Outcome::Lost(why));
}

fn sysctls(plan: &mut Plan, line: &Line) -> Outcome {
    let list = line.value.as_array().map(Vec::as_slice).unwrap_or_default();
    let pairs: Option<toml::Table> = list
        .iter()
        .map(|item| {
            let (key, value) = item.as_str()?.split_once('=')?;
            Some((
                key.trim().to_owned(),
                Value::String(value.trim().to_owned()),
            ))
        })
        .collect();
    match pairs {
        Some(pairs) if pairs.is_empty() => not_said(),
        Some(pairs) => plan.set("containers", "sysctls", Value::Table(pairs)),
        None => unfit(),
    }
}

/// Converts one runtime. Others may inherit settings of the default one.
fn runtime(
    plan: &mut Plan,
    machine: Machine<'_>,
    name: &str,
    lines: Vec<Line>,
    (default, of_default): (&str, &[Line]),
) {
    const INHERITED: [&str; 4] = [
        "runtime_path",
        "runtime_type",
        "runtime_root",
        "runtime_config_path",
    ];
    let table = format!("runtimes.{name}");
    let inherits = name != default
        && lines.iter().any(|line| {
            line.path
                .last()
                .is_some_and(|it| it == "inherit_default_runtime")
                && line.value == Value::Boolean(true)
        });
    let (name, said) = if inherits {
        (default, of_default)
    } else {
        (name, &lines[..])
    };
    let of = |key: &str| {
        let mut all = said.iter();
        all.find(|line| line.path.last().is_some_and(|it| it == key) && !line.is_nothing())
    };
    let path = match of("runtime_path").and_then(Line::text) {
        None => (machine.find)(name).unwrap_or_else(|| Path::new("/usr/bin").join(name)),
        Some(path) => PathBuf::from(path),
    };
    let is_shim = of("runtime_type").is_some_and(|line| line.text() == Some("vm"));
    let value = Value::String(path.display().to_string());
    plan.set(&table, "path", value);
    plan.programs.push(path);
    if is_shim {
        plan.set(&table, "kind", Value::String("shim".to_owned()));
    }
    let root = of("runtime_root").filter(|_| !is_shim);
    for (key, line) in [("root", root), ("shim_config", of("runtime_config_path"))] {
        if let Some(line) = line {
            plan.set(&table, key, line.value.clone());
        }
    }
    let taken = |key: &str| Outcome::Taken(format!("{table}.{key}"));
    for line in lines {
        let outcome = match line.path.last().map(String::as_str) {
            Some(key) if inherits && INHERITED.contains(&key) => Outcome::Needless(
                "`inherit_default_runtime` is set, so the value of the default runtime is used"
                    .to_owned(),
            ),
            Some("inherit_default_runtime") if inherits => taken("path"),
            Some("runtime_path") => taken("path"),
            Some("runtime_type") if is_shim => taken("kind"),
            Some("runtime_root") if !line.is_nothing() && !is_shim => taken("root"),
            Some("runtime_config_path") if !line.is_nothing() => taken("shim_config"),
            Some(key @ "privileged_without_host_devices") => {
                plan.set(&table, key, line.value.clone())
            }
            Some(key @ ("allowed_annotations" | "default_annotations")) if !line.is_nothing() => {
                plan.set(&table, key, line.value.clone())
            }
            Some("monitor_path" | "monitor_env" | "monitor_cgroup" | "monitor_exec_cgroup") => {
                Outcome::Needless("orlop-keeper replaces conmon".to_owned())
            }
            Some("container_min_memory") => {
                Outcome::Needless("orlop needs no minimum memory limit".to_owned())
            }
            Some("runtime_type") => not_said(),
            _ if line.is_nothing() => not_said(),
            Some("runtime_pull_image") => plan.set(&table, "guest_pull", line.value.clone()),
            _ => Outcome::Lost("this runtime option has no equivalent".to_owned()),
        };
        note(plan, &line, outcome);
    }
}
