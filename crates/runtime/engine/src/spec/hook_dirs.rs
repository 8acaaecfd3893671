//! Hooks from the administrator's directories: programs that the runtime executes for matching containers,
//! in the format that CRI-O and podman read (`oci-hooks(5)`, version 1.0.0).

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orlop_cri_api::v1;
use orlop_oci_types::{Hook, Hooks, Spec};
use regex_lite::Regex;
use serde::Deserialize;

use super::Error;

const FIELD: &str = "hooks.dirs";

/// Size limit of a definition in bytes.
const MAX_SIZE: u64 = 1 << 20;

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    #[serde(rename = "version")]
    _version: String,
    hook: Program,
    when: When,
    stages: Vec<Stage>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    path: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    timeout: Option<i64>,
}

/// Conditions of a hook. All conditions that are given must hold.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct When {
    always: Option<bool>,
    /// Patterns of names and values: there must be an annotation for each.
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// Patterns of the program: one must match.
    #[serde(default)]
    commands: Vec<String>,
    has_bind_mounts: Option<bool>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
enum Stage {
    Prestart,
    CreateRuntime,
    CreateContainer,
    StartContainer,
    Poststart,
    Poststop,
}

/// Adds the hooks that match a container. The definitions are read each time, because packages add and
/// remove them. An unreadable definition fails the container, which might otherwise run without its
/// protection.
pub(super) fn apply(
    dirs: &[PathBuf],
    config: &v1::ContainerConfig,
    pod: &v1::PodSandboxConfig,
    spec: &mut Spec,
) -> Result<(), Error> {
    if dirs.is_empty() {
        return Ok(());
    }
    let mut hooks = spec.hooks.take().unwrap_or_default();
    for path in files(dirs)?.values() {
        let problem = |problem: String| {
            let problem = format!("{}: {problem}; fix or remove it", path.display());
            Error::unmet(FIELD, problem)
        };
        let definition = read(path).map_err(problem)?;
        if !definition.when.fits(config, pod, spec).map_err(problem)? {
            continue;
        }
        for stage in &definition.stages {
            let Program {
                path,
                args,
                env,
                timeout,
            } = &definition.hook;
            stage.of(&mut hooks).push(Hook {
                path: path.clone(),
                args: args.clone(),
                env: env.clone(),
                timeout: *timeout,
            });
        }
    }
    spec.hooks = Some(hooks).filter(|hooks| *hooks != Hooks::default());
    Ok(())
}

/// Returns the definitions ordered by name. One in a later directory replaces that of the same name in an
/// earlier one.
fn files(dirs: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut files = BTreeMap::new();
    for dir in dirs {
        let reading = |error| Error::io(FIELD, format!("reading {}", dir.display()), error);
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.map_err(reading)?,
        };
        for entry in entries {
            let path = entry.map_err(reading)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if Path::new(&*name)
                .extension()
                .is_some_and(|own| own == "json")
            {
                files.insert(name.into_owned(), path);
            }
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Definition, String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let size = metadata.len();
    if size > MAX_SIZE {
        return Err(format!("it has {size} bytes; the limit is {MAX_SIZE}"));
    }
    let text = orlop_fs::read_file(path, MAX_SIZE).map_err(|error| error.to_string())?;
    let version: Version = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if version.version != "1.0.0" {
        let version = version.version;
        return Err(format!(
            "its version is {version:?}; only 1.0.0 is supported"
        ));
    }
    let definition: Definition =
        serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let path = &definition.hook.path;
    if !path.starts_with('/') {
        return Err(format!("hook.path: {path:?} is not an absolute path"));
    }
    if !Path::new(path).exists() {
        return Err(format!("hook.path: {path} does not exist"));
    }
    if definition.stages.is_empty() {
        return Err("stages: is empty".to_owned());
    }
    if definition.hook.timeout.is_some_and(|seconds| seconds <= 0) {
        return Err("hook.timeout: must be greater than 0".to_owned());
    }
    Ok(definition)
}

impl When {
    fn fits(
        &self,
        config: &v1::ContainerConfig,
        pod: &v1::PodSandboxConfig,
        spec: &Spec,
    ) -> Result<bool, String> {
        let mut conditions = Vec::new();
        conditions.extend(self.always);
        if let Some(expected) = self.has_bind_mounts {
            conditions.push(config.mounts.is_empty() != expected);
        }
        let annotations = || config.annotations.iter().chain(&pod.annotations);
        for (name, value) in &self.annotations {
            let (name, value) = (pattern(name)?, pattern(value)?);
            conditions
                .push(annotations().any(|(own, text)| name.is_match(own) && value.is_match(text)));
        }
        if !self.commands.is_empty() {
            let process = spec.process.as_ref();
            let program = process.and_then(|process| process.args.first());
            let mut fits = false;
            for command in &self.commands {
                fits |= program.is_some_and(|program| {
                    pattern(command).is_ok_and(|pattern| pattern.is_match(program))
                });
                pattern(command)?;
            }
            conditions.push(fits);
        }
        if conditions.is_empty() {
            return Err("when: has no condition".to_owned());
        }
        Ok(conditions.into_iter().all(|holds| holds))
    }
}

fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| format!("when: {text:?} is not a regular expression: {error}"))
}

impl Stage {
    fn of(self, hooks: &mut Hooks) -> &mut Vec<Hook> {
        match self {
            Self::Prestart => &mut hooks.prestart,
            Self::CreateRuntime => &mut hooks.create_runtime,
            Self::CreateContainer => &mut hooks.create_container,
            Self::StartContainer => &mut hooks.start_container,
            Self::Poststart => &mut hooks.poststart,
            Self::Poststop => &mut hooks.poststop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orlop_oci_types::Process;

    struct Bench {
        early: tempfile::TempDir,
        late: tempfile::TempDir,
        config: v1::ContainerConfig,
        pod: v1::PodSandboxConfig,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                early: tempfile::tempdir().unwrap(),
                late: tempfile::tempdir().unwrap(),
                config: v1::ContainerConfig::default(),
                pod: v1::PodSandboxConfig::default(),
            }
        }

        fn define(&self, name: &str, when: &str, args: &str) {
            let text = format!(
                r#"{{"version": "1.0.0", "hook": {{"path": "/bin/true", "args": ["{args}"]}},
                    "when": {when}, "stages": ["createRuntime", "poststop"]}}"#
            );
            fs::write(self.early.path().join(name), text).unwrap();
        }

        fn apply(&self) -> Result<Hooks, String> {
            let dirs = [self.early.path(), self.late.path()].map(Path::to_owned);
            let mut spec = Spec {
                process: Some(Process {
                    args: vec!["/usr/sbin/nginx".into()],
                    ..Process::default()
                }),
                ..Spec::default()
            };
            apply(&dirs, &self.config, &self.pod, &mut spec).map_err(|error| error.to_string())?;
            Ok(spec.hooks.unwrap_or_default())
        }

        fn applied(&self) -> Vec<String> {
            let hooks = self.apply().unwrap();
            assert_eq!(hooks.create_runtime, hooks.poststop);
            let hooks = hooks.create_runtime.into_iter();
            hooks.map(|hook| hook.args.concat()).collect()
        }
    }

    #[test]
    fn hooks_come_in_the_order_of_their_names_and_later_directories_win() {
        let bench = Bench::new();
        assert_eq!(bench.apply().unwrap(), Hooks::default());
        bench.define("20-b.json", r#"{"always": true}"#, "b");
        bench.define("10-a.json", r#"{"always": true}"#, "a");
        bench.define("30-never.json", r#"{"always": false}"#, "never");
        bench.define("notes.txt", "{", "");
        assert_eq!(bench.applied(), ["a", "b"]);
        let other = r#"{"version": "1.0.0", "hook": {"path": "/bin/false"},
                        "when": {"always": true}, "stages": ["prestart"]}"#;
        fs::write(bench.late.path().join("10-a.json"), other).unwrap();
        let hooks = bench.apply().unwrap();
        assert_eq!(hooks.prestart[0].path, "/bin/false");
        assert_eq!(hooks.create_runtime.len(), 1);
        orlop_fs::remove_tree(bench.late.path()).unwrap();
        assert_eq!(bench.applied(), ["a", "b"], "a directory may be missing");
    }

    #[test]
    fn all_conditions_must_hold() {
        let mut bench = Bench::new();
        bench.define(
            "1.json",
            r#"{"commands": ["^/bin/sh$", "/nginx$"]}"#,
            "command",
        );
        bench.define("2.json", r#"{"commands": ["^/bin/sh$"]}"#, "other command");
        bench.define("3.json", r#"{"hasBindMounts": true}"#, "mounts");
        bench.define("4.json", r#"{"hasBindMounts": false}"#, "no mounts");
        bench.define(
            "5.json",
            r#"{"annotations": {"^example\\.com/gpu$": "^(1|yes)$"}}"#,
            "annotation",
        );
        bench.define(
            "6.json",
            r#"{"always": true, "annotations": {"^example": "no"}}"#,
            "both",
        );
        assert_eq!(bench.applied(), ["command", "no mounts"]);
        bench.config.mounts.push(v1::Mount::default());
        bench
            .pod
            .annotations
            .insert("example.com/gpu".into(), "yes".into());
        assert_eq!(bench.applied(), ["command", "mounts", "annotation"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file() {
        for (text, expected) in [
            ("{", "EOF"),
            (r#"{"version": "0.1.0"}"#, "0.1.0"),
            (
                r#"{"version": "1.0.0", "hook": {"path": "true"}, "when": {"always": true},
                "stages": ["prestart"]}"#,
                "absolute",
            ),
            (
                r#"{"version": "1.0.0", "hook": {"path": "/nonexistent"}, "when": {"always": true},
                "stages": ["prestart"]}"#,
                "/nonexistent",
            ),
            (
                r#"{"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {},
                "stages": ["prestart"]}"#,
                "no condition",
            ),
            (
                r#"{"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": true},
                "stages": []}"#,
                "stages",
            ),
            (
                r#"{"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"always": true},
                "stages": ["later"]}"#,
                "later",
            ),
            (
                r#"{"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"commands": ["("]},
                "stages": ["prestart"]}"#,
                "not a regular expression",
            ),
            (
                r#"{"version": "1.0.0", "hook": {"path": "/bin/true"}, "when": {"sometimes": true},
                "stages": ["prestart"]}"#,
                "sometimes",
            ),
        ] {
            let bench = Bench::new();
            fs::write(bench.early.path().join("bad.json"), text).unwrap();
            let error = bench.apply().unwrap_err();
            assert!(
                error.contains(expected) && error.contains("bad.json"),
                "{error}"
            );
        }
    }
}
