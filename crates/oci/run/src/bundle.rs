//! A bundle: the directory with `config.json`, checked as far as possible without the host.

use std::path::{Path, PathBuf};

use orlop_oci_types::{Hooks, Linux, NamespaceKind, Process, Spec};

use crate::attached::Attached;
use crate::error::{Error, Result, While};
use crate::json;

/// The configuration file of a bundle.
pub(crate) const CONFIG: &str = "config.json";

/// A bundle with a valid configuration.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) dir: PathBuf,
    pub(crate) spec: Spec,
    /// Whether the configuration has a process; without one a container can be created but not started.
    pub(crate) starts: bool,
    /// Mounts that the caller has made for the container.
    pub(crate) attached: Attached,
}

impl Bundle {
    /// Reads and checks a bundle.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let dir = std::path::absolute(dir).doing(|| format!("--bundle {}", dir.display()))?;
        let path = dir.join(CONFIG);
        if !path.exists() {
            return Err(Error::new(format!(
                "JSON specification file {} not found",
                path.display()
            )));
        }
        let spec: Spec = json::read(&path)?;
        let starts = spec.process.is_some();
        let mut bundle = Self {
            dir,
            spec,
            starts,
            attached: Attached::default(),
        };
        bundle.check().map_err(|error| error.within(CONFIG))?;
        // The init process that waits for the start exists in any case.
        bundle.spec.process.get_or_insert_with(|| Process {
            cwd: "/".to_owned(),
            ..Process::default()
        });
        Ok(bundle)
    }

    /// Returns the path of the root file system.
    pub(crate) fn rootfs(&self) -> PathBuf {
        let root = self
            .spec
            .root
            .as_ref()
            .map_or("", |root| root.path.as_str());
        self.dir.join(root)
    }

    /// Returns whether the caller's mounts can be attached in the container's own mount namespace alone: no other
    /// process uses them, and the attaching process has the rights.
    pub(crate) fn takes_mounts(&self) -> Result<bool> {
        let namespaces = &self.linux()?.namespaces;
        let of = |kind| namespaces.iter().find(|it| it.kind == kind);
        let own_mounts = of(NamespaceKind::Mount).is_some_and(|it| it.path.is_empty());
        let own_users = of(NamespaceKind::User).is_some();
        let hooks = self.spec.hooks.as_ref();
        let no_hooks = hooks.is_none_or(|it| *it == Hooks::default());
        Ok(own_mounts && !own_users && no_hooks)
    }

    /// Returns the required `linux` section.
    pub(crate) fn linux(&self) -> Result<&Linux> {
        let linux = self.spec.linux.as_ref();
        linux.ok_or_else(|| Error::new("linux: this section is missing"))
    }

    /// Returns the `process` section, required to create a process.
    pub(crate) fn process(&self) -> Result<&Process> {
        let process = self.spec.process.as_ref();
        process.ok_or_else(|| Error::new("process: this section is missing"))
    }

    fn check(&self) -> Result<()> {
        let spec = &self.spec;
        let version = &spec.oci_version;
        let major = version.split('.').next().unwrap_or_default();
        if major != "1" && !version.starts_with("0.") && !version.is_empty() {
            return Err(Error::new(format!(
                "ociVersion: version {version:?} is not supported; use 1.x"
            )));
        }
        match &spec.root {
            Some(root) if !root.path.is_empty() => {}
            _ => return Err(Error::new("root.path: the root filesystem is not set")),
        }
        let linux = self.linux()?;
        let mut seen = Vec::new();
        for (index, namespace) in linux.namespaces.iter().enumerate() {
            if seen.contains(&namespace.kind) {
                return Err(Error::new(format!(
                    "linux.namespaces[{index}]: malformed spec file: duplicated ns {:?}",
                    namespace.kind
                )));
            }
            seen.push(namespace.kind);
        }
        let has = |kind| seen.contains(&kind);
        for (wanted, kind, field) in [
            (
                !spec.hostname.is_empty(),
                NamespaceKind::Uts,
                "hostname: unable to set hostname without a private UTS namespace",
            ),
            (
                !spec.domainname.is_empty(),
                NamespaceKind::Uts,
                "domainname: unable to set domainname without a private UTS namespace",
            ),
            (
                !linux.masked_paths.is_empty(),
                NamespaceKind::Mount,
                "linux.maskedPaths: unable to restrict sys entries without a private MNT namespace",
            ),
            (
                !linux.readonly_paths.is_empty(),
                NamespaceKind::Mount,
                "linux.readonlyPaths: unable to restrict sys entries without a private MNT namespace",
            ),
            (
                !linux.time_offsets.is_empty(),
                NamespaceKind::Time,
                "linux.timeOffsets: time namespace is not configured",
            ),
            (
                !linux.net_devices.is_empty(),
                NamespaceKind::Network,
                "linux.netDevices: unable to move network devices without a private NET namespace",
            ),
        ] {
            if wanted && !has(kind) {
                return Err(Error::new(field));
            }
        }
        crate::netdev::check(linux)?;
        for (index, mount) in spec.mounts.iter().enumerate() {
            if mount.destination.is_empty() {
                return Err(Error::new(format!(
                    "mounts[{index}].destination: the path is empty"
                )));
            }
        }
        if let Some(process) = &spec.process {
            check_process(process).map_err(|error| error.within("process"))?;
        }
        Ok(())
    }
}

/// Error for a start without a process.
pub(crate) const NO_PROCESS: &str = "process property must not be empty";

/// Checks that apply to a container's first process and to one that joins it.
pub(crate) fn check_process(process: &Process) -> Result<()> {
    if process.cwd.is_empty() {
        return Err(Error::new("cwd: Cwd property must not be empty"));
    }
    if !process.cwd.starts_with('/') {
        return Err(Error::new(format!(
            "cwd: Cwd must be an absolute path, not {:?}",
            process.cwd
        )));
    }
    if process.args.is_empty() {
        return Err(Error::new("args must not be empty"));
    }
    Ok(())
}
