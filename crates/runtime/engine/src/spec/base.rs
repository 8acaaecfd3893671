//! The base specification of a runtime's containers, from an administrator's file in the format that `ctr
//! oci spec` prints.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use orlop_oci_types::{Device, DeviceRule, Hook, Hooks, Mount, Pids, Process, Rlimit, Spec};

use super::capabilities;
use super::clean_path::clean;
use super::sysctl_names::{dotted, scope};

/// Size limit of the file in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Limit of elements in a list of the file.
const MAX_ELEMENTS: usize = 1024;

/// Mounts that are made for each pod, whatever the file says.
const MADE_HERE: [&str; 3] = ["/sys", "/sys/fs/cgroup", "/dev/shm"];

/// The base of a container's specification. The pod's request and the pod's own parts override it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BaseSpec(Arc<Content>);

#[derive(Debug, Default, PartialEq)]
struct Content {
    annotations: BTreeMap<String, String>,
    hooks: Hooks,
    mounts: Vec<Mount>,
    process: Process,
    capabilities: Option<Vec<&'static str>>,
    sysctls: BTreeMap<String, String>,
    devices: Vec<Device>,
    rules: Vec<DeviceRule>,
    pids: Option<i64>,
    unified: BTreeMap<String, String>,
    masked: Vec<String>,
    readonly: Vec<String>,
    linux: orlop_oci_types::Linux,
}

impl BaseSpec {
    /// Reads a file; the error says why it cannot be used.
    pub fn read(path: &Path) -> Result<Self, String> {
        let told = |problem: String| format!("{}: {problem}", path.display());
        let text = orlop_fs::read_text(path, MAX_SIZE)
            .map_err(|error| format!("reading {}: {error}", path.display()))?;
        Self::parse(&text).map_err(told)
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // serde would accept a list as the fields in their order.
        if !text.trim_start().starts_with('{') {
            return Err("is not a JSON object".to_owned());
        }
        let spec: Spec =
            serde_json::from_slice(text.as_bytes()).map_err(|error| error.to_string())?;
        let mut linux = spec.linux.unwrap_or_default();
        let mut process = spec.process.unwrap_or_default();
        let hooks = spec.hooks.unwrap_or_default();
        let mut resources = linux.resources.take().unwrap_or_default();
        let rules = std::mem::take(&mut resources.devices);
        let pids = resources.pids.take();
        let unified = std::mem::take(&mut resources.unified);
        for (what, is_set) in [
            (
                "linux.resources",
                resources != orlop_oci_types::Resources::default(),
            ),
            ("linux.intelRdt", linux.intel_rdt.is_some()),
            ("linux.netDevices", !linux.net_devices.is_empty()),
            ("linux.timeOffsets", !linux.time_offsets.is_empty()),
        ] {
            if is_set {
                return Err(format!(
                    "a base specification cannot set {what}; remove it (of linux.resources, only \
                     devices, pids and unified are allowed)"
                ));
            }
        }
        let mounts = std::mem::take(&mut { spec.mounts });
        bounded("mounts", mounts.len())?;
        bounded("process.env", process.env.len())?;
        bounded("process.rlimits", process.rlimits.len())?;
        bounded("linux.devices", linux.devices.len())?;
        bounded("linux.resources.devices", rules.len())?;
        bounded("linux.maskedPaths", linux.masked_paths.len())?;
        bounded("linux.readonlyPaths", linux.readonly_paths.len())?;
        check_environment(&process.env)?;
        check_limits(&process.rlimits)?;
        check_hooks(&hooks)?;
        if process.user.umask.is_some_and(|umask| umask > 0o777) {
            return Err("process.user.umask: must be at most 511 (octal 777)".to_owned());
        }
        for device in &linux.devices {
            check_path("linux.devices", &device.path)?;
        }
        for (field, paths) in [
            ("linux.maskedPaths", &linux.masked_paths),
            ("linux.readonlyPaths", &linux.readonly_paths),
        ] {
            for path in paths {
                check_path(field, path)?;
            }
        }
        let capabilities = process.capabilities.take();
        let capabilities = capabilities.map(|sets| known_capabilities(&sets.bounding));
        Ok(Self(Arc::new(Content {
            annotations: spec.annotations,
            hooks,
            mounts: kept_mounts(mounts)?,
            capabilities: capabilities.transpose()?,
            sysctls: checked_sysctls(&std::mem::take(&mut linux.sysctl))?,
            devices: std::mem::take(&mut linux.devices),
            rules: rules.into_iter().filter(|rule| rule.allow).collect(),
            pids: pids.and_then(|Pids { limit, .. }| limit),
            unified,
            masked: std::mem::take(&mut linux.masked_paths),
            readonly: std::mem::take(&mut linux.readonly_paths),
            process,
            linux,
        })))
    }

    pub(super) fn annotations(&self) -> &BTreeMap<String, String> {
        &self.0.annotations
    }

    pub(super) fn environment(&self) -> &[String] {
        &self.0.process.env
    }

    pub(super) fn limits(&self) -> &[Rlimit] {
        &self.0.process.rlimits
    }

    /// Returns the default capabilities of containers, if the file names any.
    pub(super) fn capabilities(&self) -> Option<&[&'static str]> {
        self.0.capabilities.as_deref()
    }

    pub(super) fn sysctls(&self) -> &BTreeMap<String, String> {
        &self.0.sysctls
    }

    pub(super) fn pids(&self) -> Option<i64> {
        self.0.pids
    }

    pub(super) fn umask(&self) -> Option<u32> {
        self.0.process.user.umask
    }

    pub(super) fn mounts(&self) -> &[Mount] {
        &self.0.mounts
    }

    pub(super) fn masked_paths(&self) -> &[String] {
        &self.0.masked
    }

    pub(super) fn readonly_paths(&self) -> &[String] {
        &self.0.readonly
    }

    /// Adds the remaining parts of the base to a specification, without replacing values.
    pub(super) fn complete(&self, privileged: bool, spec: &mut Spec) {
        let Content {
            hooks,
            process: base,
            devices,
            rules,
            unified,
            linux: base_linux,
            ..
        } = &*self.0;
        if *hooks != Hooks::default() {
            spec.hooks = Some(hooks.clone());
        }
        if let Some(process) = &mut spec.process {
            process.no_new_privileges |= base.no_new_privileges && !privileged;
            process.scheduler.clone_from(&base.scheduler);
            process.io_priority.clone_from(&base.io_priority);
            process
                .exec_cpu_affinity
                .clone_from(&base.exec_cpu_affinity);
            process.oom_score_adj = process.oom_score_adj.or(base.oom_score_adj);
        }
        let Some(linux) = &mut spec.linux else {
            return;
        };
        linux.personality.clone_from(&base_linux.personality);
        linux.memory_policy.clone_from(&base_linux.memory_policy);
        let taken: Vec<String> = linux.devices.iter().map(|it| it.path.clone()).collect();
        let free = devices.iter().filter(|it| !taken.contains(&it.path));
        linux.devices.extend(free.cloned());
        let resources = linux.resources.get_or_insert_default();
        if !privileged {
            resources.devices.extend(rules.iter().cloned());
        }
        for (file, value) in unified {
            let entry = resources.unified.entry(file.clone());
            entry.or_insert_with(|| value.clone());
        }
    }
}

fn bounded(field: &str, length: usize) -> Result<(), String> {
    if length > MAX_ELEMENTS {
        return Err(format!(
            "{field}: has {length} elements; the limit is {MAX_ELEMENTS}"
        ));
    }
    Ok(())
}

fn check_path(field: &str, path: &str) -> Result<(), String> {
    if path.starts_with('/') && !path.contains('\0') {
        return Ok(());
    }
    Err(format!("{field}: {path:?} is not an absolute path"))
}

fn check_environment(entries: &[String]) -> Result<(), String> {
    let is_bad = |entry: &&String| {
        entry.contains('\0')
            || entry
                .split_once('=')
                .is_none_or(|(name, _)| name.is_empty())
    };
    match entries.iter().position(|entry| is_bad(&entry)) {
        // The value may be a secret.
        Some(at) => Err(format!(
            "process.env[{at}]: does not have the form NAME=value"
        )),
        None => Ok(()),
    }
}

fn check_limits(limits: &[Rlimit]) -> Result<(), String> {
    for Rlimit { kind, hard, soft } in limits {
        let is_name = kind.strip_prefix("RLIMIT_").is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase())
        });
        if !is_name {
            return Err(format!(
                "process.rlimits: {kind:?} is not a resource limit; use a name such as \
                 RLIMIT_NOFILE"
            ));
        }
        if soft > hard {
            return Err(format!(
                "process.rlimits: {kind}: the soft limit {soft} exceeds the hard limit {hard}"
            ));
        }
    }
    Ok(())
}

fn check_hooks(hooks: &Hooks) -> Result<(), String> {
    let lists: [(&str, &Vec<Hook>); 6] = [
        ("prestart", &hooks.prestart),
        ("createRuntime", &hooks.create_runtime),
        ("createContainer", &hooks.create_container),
        ("startContainer", &hooks.start_container),
        ("poststart", &hooks.poststart),
        ("poststop", &hooks.poststop),
    ];
    for (stage, list) in lists {
        bounded(&format!("hooks.{stage}"), list.len())?;
        for hook in list {
            check_path(&format!("hooks.{stage}"), &hook.path)?;
        }
    }
    Ok(())
}

/// Returns the capabilities, which must be known; the request determines the other sets.
fn known_capabilities(names: &[String]) -> Result<Vec<&'static str>, String> {
    let known = |name: &String| {
        let found = capabilities::ALL.into_iter().find(|known| known == name);
        found.ok_or_else(|| format!("process.capabilities.bounding: {name:?} is not a capability"))
    };
    names.iter().map(known).collect()
}

fn checked_sysctls(given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let mut checked = BTreeMap::new();
    for (name, value) in given {
        let dotted = dotted(name).map_err(|error| format!("linux.sysctl: {error}"))?;
        if scope(&dotted).is_none() {
            return Err(format!(
                "linux.sysctl: {name} is not a namespaced kernel parameter"
            ));
        }
        if value.contains(['\0', '\n']) {
            return Err(format!(
                "linux.sysctl: the value of {name} contains a line break or a NUL character"
            ));
        }
        checked.insert(dotted, value.clone());
    }
    Ok(checked)
}

/// Returns the mounts of the file that containers get. Mounts that are made for each pod are left out, as
/// is a `/run` tmpfs, which would hide the image's files.
fn kept_mounts(mounts: Vec<Mount>) -> Result<Vec<Mount>, String> {
    let mut kept: Vec<Mount> = Vec::new();
    for mut mount in mounts {
        check_path("mounts", &mount.destination)?;
        mount.destination = clean(&mount.destination);
        if mount.destination == "/" {
            return Err("mounts: the root filesystem itself cannot be replaced".to_owned());
        }
        let hides_run = mount.destination == "/run" && mount.kind == "tmpfs";
        if hides_run || MADE_HERE.contains(&mount.destination.as_str()) {
            continue;
        }
        let is_bind = mount.kind == "bind" || mount.options.iter().any(|it| it.contains("bind"));
        if is_bind {
            check_path("mounts.source", &mount.source)?;
        }
        kept.retain(|earlier| earlier.destination != mount.destination);
        kept.push(mount);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        BaseSpec::parse(text).unwrap_err()
    }

    #[test]
    fn what_cannot_be_a_base_is_named() {
        for (text, told) in [
            ("[]", "a JSON object"),
            ("", "a JSON object"),
            (r#"{"mounts": {}}"#, "invalid type"),
            (r#"{"process": {"env": ["A=1", "=x"]}}"#, "process.env[1]"),
            (
                r#"{"process": {"rlimits": [{"type": "nofile", "soft": 1, "hard": 1}]}}"#,
                "RLIMIT_NOFILE",
            ),
            (
                r#"{"process": {"rlimits": [{"type": "RLIMIT_CPU", "soft": 2, "hard": 1}]}}"#,
                "exceeds the hard limit",
            ),
            (
                r#"{"process": {"capabilities": {"bounding": ["CAP_FLY"]}}}"#,
                "CAP_FLY",
            ),
            (r#"{"process": {"user": {"umask": 512}}}"#, "umask"),
            (r#"{"mounts": [{"destination": "x"}]}"#, "absolute path"),
            (
                r#"{"mounts": [{"destination": "/."}]}"#,
                "the root filesystem itself",
            ),
            (
                r#"{"mounts": [{"destination": "/x", "type": "bind", "source": "y"}]}"#,
                "mounts.source",
            ),
            (
                r#"{"hooks": {"poststop": [{"path": "true"}]}}"#,
                "hooks.poststop",
            ),
            (
                r#"{"linux": {"sysctl": {"vm.swappiness": "1"}}}"#,
                "vm.swappiness",
            ),
            (
                r#"{"linux": {"resources": {"memory": {"limit": 1}}}}"#,
                "linux.resources",
            ),
            (
                r#"{"linux": {"intelRdt": {"closID": "x"}}}"#,
                "linux.intelRdt",
            ),
            (r#"{"linux": {"maskedPaths": ["x"]}}"#, "linux.maskedPaths"),
        ] {
            let problem = refused(text);
            assert!(problem.contains(told), "{text}: {problem}");
        }
        let many = vec![r#""A=1""#; MAX_ELEMENTS + 1].join(",");
        let problem = refused(&format!(r#"{{"process": {{"env": [{many}]}}}}"#));
        assert!(problem.contains("the limit is"), "{problem}");
        assert!(BaseSpec::parse("{}").is_ok());
    }

    #[test]
    fn mounts_that_a_pod_has_anyway_are_left_out() {
        let text = r#"{"mounts": [
            {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
            {"destination": "/run/", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["hidepid=2"]},
            {"destination": "/x/../y", "type": "tmpfs", "source": "tmpfs"}]}"#;
        let base = BaseSpec::parse(text).unwrap();
        let kept: Vec<_> = base
            .mounts()
            .iter()
            .map(|it| it.destination.as_str())
            .collect();
        assert_eq!(kept, ["/proc", "/y"]);
    }
}
