//! Shares of cache and memory bandwidth (`linux.intelRdt`): groups of the kernel's `resctrl`.

mod stats;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orlop_fs::Mountinfo;
use orlop_oci_types::IntelRdt;
use rustix::fs::statfs;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, While};

/// The conventional mount point.
const USUAL: &str = "/sys/fs/resctrl";

/// `RDTGROUP_SUPER_MAGIC` of the kernel's `magic.h`.
const MAGIC: i64 = 0x0765_5821;

/// A container's group, stored in the container's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rdt {
    /// The mount point of `resctrl`.
    root: PathBuf,
    /// The class of service, which other containers may share.
    group: PathBuf,
    /// Whether the class belongs to this container alone, and is removed with it.
    own: bool,
    /// The container's monitoring group, if it has one.
    monitor: Option<PathBuf>,
}

impl Rdt {
    /// Determines the group, and refuses features that this machine lacks. Makes nothing.
    pub(crate) fn plan(id: &str, wanted: &IntelRdt) -> Result<Self> {
        let root = root().ok_or_else(|| {
            Error::new("intelRdt is specified in config, but Intel RDT is not enabled")
        })?;
        Self::below(&root, id, wanted)
    }

    fn below(root: &Path, id: &str, wanted: &IntelRdt) -> Result<Self> {
        let class = &wanted.clos_id;
        // A lone slash is the root's class.
        if matches!(class.as_str(), "." | "..") || (class.len() > 1 && class.contains('/')) {
            return Err(Error::new(format!("invalid intelRdt.ClosID {class:?}")));
        }
        let has = |feature: &str| root.join("info").join(feature).is_dir();
        if !wanted.l3_cache_schema.is_empty() && !has("L3") {
            return Err(Error::new(
                "intelRdt.l3CacheSchema is specified in config, but Intel RDT/CAT is not enabled",
            ));
        }
        if !wanted.mem_bw_schema.is_empty() && !has("MB") {
            return Err(Error::new(
                "intelRdt.memBwSchema is specified in config, but Intel RDT/MBA is not enabled",
            ));
        }
        let group = match class.as_str() {
            "" => root.join(id),
            "/" => root.to_owned(),
            class => root.join(class),
        };
        let monitor = wanted
            .enable_monitoring
            .then(|| group.join("mon_groups").join(id));
        Ok(Self {
            root: root.to_owned(),
            group,
            own: false,
            monitor,
        })
    }

    /// Makes the group with its shares, and removes it if that fails.
    pub(crate) fn make(&mut self, wanted: &IntelRdt) -> Result<()> {
        let schemata = schemata(wanted);
        if !wanted.clos_id.is_empty() && schemata.is_empty() && !self.group.is_dir() {
            return Err(Error::new(format!(
                "clos dir not accessible (must be pre-created when schemata, l3CacheSchema and memBwSchema are empty): {}",
                self.group.display()
            )));
        }
        let made = self.make_dir(&self.group)?;
        // A named class is shared, and outlives its containers.
        self.own = made && wanted.clos_id.is_empty();
        let filled = self
            .write_schemata(&schemata)
            .and_then(|()| match &self.monitor {
                Some(monitor) => self.make_dir(monitor).map(drop),
                None => Ok(()),
            });
        if filled.is_err() && made {
            let _ = fs::remove_dir(&self.group);
        }
        filled
    }

    /// Moves a process into the group.
    pub(crate) fn add(&self, pid: i32) -> Result<()> {
        for group in [Some(&self.group), self.monitor.as_ref()]
            .into_iter()
            .flatten()
        {
            let tasks = group.join("tasks");
            let added = fs::write(tasks, pid.to_string());
            self.told(added, || format!("intelrdt: unable to add pid {pid}"))?;
        }
        Ok(())
    }

    /// Changes its shares. Empty values stay unchanged.
    pub(crate) fn update(&self, l3_cache_schema: &str, mem_bw_schema: &str) -> Result<()> {
        let wanted = IntelRdt {
            l3_cache_schema: l3_cache_schema.to_owned(),
            mem_bw_schema: mem_bw_schema.to_owned(),
            ..IntelRdt::default()
        };
        self.write_schemata(&schemata(&wanted))
    }

    /// Removes everything that was made for this container alone.
    pub(crate) fn remove(&self) -> Result<()> {
        let group = if self.own {
            Some(&self.group)
        } else {
            self.monitor.as_ref()
        };
        match group.map(fs::remove_dir) {
            Some(Err(error)) if error.kind() != ErrorKind::NotFound => {
                Err(error).doing(|| format!("removing {}", self.group.display()))
            }
            _ => Ok(()),
        }
    }

    /// Makes a directory; returns false if it existed.
    fn make_dir(&self, dir: &Path) -> Result<bool> {
        match fs::create_dir(dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            made => self
                .told(made, || format!("mkdir {}", dir.display()))
                .map(|()| true),
        }
    }

    fn write_schemata(&self, schemata: &str) -> Result<()> {
        if schemata.is_empty() {
            return Ok(());
        }
        let written = fs::write(self.group.join("schemata"), schemata);
        self.told(written, || {
            format!("intelrdt: unable to write {schemata:?}")
        })
    }

    /// Adds the kernel's message about its last refusal to an error.
    fn told(&self, done: std::io::Result<()>, what: impl FnOnce() -> String) -> Result<()> {
        let status = || {
            let file = self.root.join("info/last_cmd_status");
            orlop_fs::read_kernel_text(file).ok()
        };
        done.doing(what).map_err(|error| match status() {
            Some(status) => Error::new(format!("{error}, last_cmd_status: {}", status.trim())),
            None => error,
        })
    }
}

/// Refuses update flags that this machine, or a container without a group, does not support.
pub(crate) fn check_update(
    rdt: Option<&Rdt>,
    l3_cache_schema: &str,
    mem_bw_schema: &str,
) -> Result<()> {
    let root = rdt.map(|rdt| rdt.root.clone()).or_else(root);
    let has = |feature: &str| {
        root.as_ref()
            .is_some_and(|it| it.join("info").join(feature).is_dir())
    };
    if !l3_cache_schema.is_empty() && !has("L3") {
        return Err(Error::new("Intel RDT/CAT: l3 cache schema is not enabled"));
    }
    if !mem_bw_schema.is_empty() && !has("MB") {
        return Err(Error::new(
            "Intel RDT/MBA: memory bandwidth schema is not enabled",
        ));
    }
    if rdt.is_none() && (!l3_cache_schema.is_empty() || !mem_bw_schema.is_empty()) {
        return Err(Error::new(
            "updating a non-existent Intel RDT configuration is not supported",
        ));
    }
    Ok(())
}

fn schemata(wanted: &IntelRdt) -> String {
    let lines = [&wanted.l3_cache_schema, &wanted.mem_bw_schema]
        .into_iter()
        .chain(&wanted.schemata);
    lines
        .filter(|it| !it.is_empty())
        .flat_map(|it| [it.as_str(), "\n"])
        .collect()
}

/// Returns the mount point of `resctrl`; `None` if the processor or the kernel does not support it.
fn root() -> Option<PathBuf> {
    let usual = Path::new(USUAL);
    // The kernel creates this directory only if `resctrl` is supported.
    if statfs(usual).ok()?.f_type == MAGIC {
        return Some(usual.to_owned());
    }
    let table = Mountinfo::own().ok()?;
    let mount = table.mounts().find(|mount| mount.kind() == "resctrl");
    mount.map(|mount| mount.point())
}

#[cfg(test)]
#[path = "rdt_tests.rs"]
mod tests;
