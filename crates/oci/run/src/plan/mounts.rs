//! The mounts of a container. Their sources on the host are opened here, before the clone.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use orlop_oci_types::{Mount, Spec};
use rustix::fs::{FileType, fstat, fstatfs};

use super::cgroup_mount::CgroupMounts;
use super::idmap::Mappings;
use super::options::MountOptions;
use super::source::Source;
use super::text::c_string;
use super::tree::Copied;
use super::what::{By, Fresh, MountStep, What};
use crate::bundle::Bundle;
use crate::error::{Error, Result, While, meaning};
use crate::report::Step;
use crate::sys::MountAttr;

/// `PROC_SUPER_MAGIC`.
pub(crate) const PROC_MAGIC: i64 = 0x9fa0;

/// The process that opens a bind source, or the given mount itself for the parent to adjust.
#[derive(Debug)]
pub(crate) struct Opener {
    by: By,
    given: Option<OwnedFd>,
}

impl Opener {
    pub(super) fn is(by: By) -> Self {
        Self { by, given: None }
    }

    pub(super) fn given(mount: OwnedFd) -> Self {
        Self {
            by: By::Parent,
            given: Some(mount),
        }
    }
}

/// Files that may be mounted over in a `/proc`: lxcfs and similar file systems provide them.
const WITHIN_PROC: &[&str] = &[
    "proc/cpuinfo",
    "proc/diskstats",
    "proc/meminfo",
    "proc/stat",
    "proc/swaps",
    "proc/uptime",
    "proc/loadavg",
    "proc/slabinfo",
    "proc/net/dev",
    "proc/sys/kernel/ns_last_pid",
    "proc/sys/crypto/fips_enabled",
];

/// Opens the sources of a bundle's mounts, except those that `by` leaves to others.
pub(crate) fn mounts(
    bundle: &Bundle,
    cgroups: &CgroupMounts<'_>,
    mappings: &mut Mappings,
    has_users: bool,
    copied: Copied,
    by: impl Fn(&Path) -> Result<Opener>,
) -> Result<Vec<MountStep>> {
    let spec = &bundle.spec;
    let steps = spec.mounts.iter().enumerate().map(|(index, mount)| {
        step(
            bundle, index, mount, cgroups, mappings, has_users, copied, &by,
        )
        .map_err(|error| {
            error.within(format!(
                "mounts[{index}]: error mounting {:?} to rootfs at {:?}",
                mount.source, mount.destination
            ))
        })
    });
    steps.collect()
}

#[expect(clippy::too_many_arguments, reason = "it is the body of a loop")]
fn step(
    bundle: &Bundle,
    index: usize,
    mount: &Mount,
    cgroups: &CgroupMounts<'_>,
    mappings: &mut Mappings,
    has_users: bool,
    copied: Copied,
    by: &impl Fn(&Path) -> Result<Opener>,
) -> Result<MountStep> {
    let spec = &bundle.spec;
    let options = MountOptions::parse(&mount.options);
    // runc also accepts host paths below the root file system.
    let rootfs = bundle.rootfs();
    let below = Path::new(&mount.destination).strip_prefix(&rootfs).ok();
    let target = relative(below.and_then(Path::to_str).unwrap_or(&mount.destination));
    if target.is_empty() {
        return Err(Error::new(
            "cannot mount on /; the root filesystem is set by root.path",
        ));
    }
    let bind = options.bind || mount.kind == "bind";
    let mut within_proc = WITHIN_PROC.contains(&target.as_str());
    let mut directory = true;
    let mut read_only_later = false;
    let mut plain_target = false;
    let what = if options.remount {
        What::Change {
            own: options.attr,
            below: options.recursive_attr,
        }
    } else if bind {
        let path = bundle.dir.join(&mount.source);
        let is_at_proc = target == "proc";
        let inside_proc = || {
            Error::new(format!(
                "{:?} cannot be mounted because it is inside /proc",
                mount.destination
            ))
        };
        if target.starts_with("proc/") && !within_proc {
            return Err(inside_proc());
        }
        within_proc |= is_at_proc;
        let Opener { by, given } = by(&path)?;
        let source = Source::new(&path, &options, mount, mappings, has_users)?;
        if by == By::Parent {
            let told = || path.display().to_string();
            let tree = match given {
                Some(tree) => source.dress(&tree).map(|()| tree),
                None => source.open(),
            };
            let tree = tree.map_err(|(step, errno)| {
                let what = source_fault(step);
                Error::new(format!(
                    "{}{what}: {}",
                    told(),
                    meaning(errno.raw_os_error())
                ))
            })?;
            if is_at_proc && !is_proc(&tree) {
                return Err(inside_proc());
            }
            let look = fstat(&tree).doing(told)?;
            directory = FileType::from_raw_mode(look.st_mode) == FileType::Directory;
            What::Tree(tree)
        } else {
            What::Source {
                source,
                by,
                is_at_proc,
            }
        }
    } else {
        let kind = mount.kind.as_str();
        if target.starts_with("proc/") && !within_proc || target == "proc" && kind != "proc" {
            return Err(Error::new(format!(
                "{:?} cannot be mounted because it is inside /proc",
                mount.destination
            )));
        }
        if options.idmap.is_some() || !mount.uid_mappings.is_empty() {
            return Err(Error::new(
                "id-mapped mounts are only supported for bind mounts",
            ));
        }
        within_proc |= kind == "proc";
        plain_target = matches!(kind, "proc" | "sysfs");
        // Other mounts and device nodes may be added there first.
        read_only_later = options.read_only && (kind == "tmpfs" || target == "dev");
        let mut fresh = fresh(mount, options_for(kind, &options, spec), read_only_later)?;
        match kind {
            "cgroup" | "cgroup2" => cgroups.what(fresh, options.read_only, copied)?,
            "mqueue" => {
                // All mqueue mounts in one namespace are one file system, which takes no option twice.
                let label = |(key, _): &(CString, _)| key.as_c_str() == c"context";
                let label = fresh.data.extract_if(.., |it| label(it)).last();
                fresh.root_label = label.and_then(|(_, label)| label);
                What::Fresh(fresh)
            }
            _ => What::Fresh(fresh),
        }
    };
    Ok(MountStep {
        index: index as u16,
        target: c_string(target, "destination")?,
        directory,
        what,
        propagation: options.propagation,
        plain_target,
        within_proc,
        read_only_later,
        made: None,
    })
}

/// Normalizes the slashes of a path.
pub(crate) fn relative(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn options_for<'a>(
    kind: &str,
    options: &'a MountOptions,
    spec: &Spec,
) -> (&'a MountOptions, Option<String>) {
    let label = spec
        .linux
        .as_ref()
        .map_or("", |linux| linux.mount_label.as_str());
    // The kernel's own file systems have their own labels; cgroup v1 mounts are on a tmpfs.
    let takes_label = !matches!(kind, "proc" | "sysfs" | "cgroup2");
    let label = (takes_label && !label.is_empty()).then(|| label.to_owned());
    (options, label)
}

fn fresh(
    mount: &Mount,
    (options, label): (&MountOptions, Option<String>),
    read_only_later: bool,
) -> Result<Fresh> {
    let mut data = Vec::new();
    if !mount.source.is_empty() {
        data.push((
            c"source".to_owned(),
            Some(c_string(mount.source.as_str(), "source")?),
        ));
    }
    for (key, value) in &options.data {
        let value = value
            .as_deref()
            .map(|value| c_string(value, "options"))
            .transpose()?;
        data.push((c_string(key.as_str(), "options")?, value));
    }
    if let Some(label) = label {
        data.push((
            c"context".to_owned(),
            Some(c_string(label, "linux.mountLabel")?),
        ));
    }
    let mut attr = options.attr.set as u32;
    if read_only_later {
        attr &= !(MountAttr::RDONLY as u32);
    }
    let says_mode = options.data.iter().any(|(key, _)| key == "mode");
    Ok(Fresh {
        is_proc: mount.kind == "proc",
        keeps_mode: mount.kind == "tmpfs" && !says_mode,
        kind: c_string(mount.kind.as_str(), "type")?,
        data,
        attr,
        below: options.recursive_attr,
        copy_up: options.copy_up && mount.kind == "tmpfs",
        root_label: None,
    })
}

/// Returns the error text for a failed step on a mount source.
pub(crate) fn source_fault(step: Step) -> &'static str {
    match step {
        Step::MountIds => ": cannot map the IDs (the filesystem may not support ID-mapped mounts)",
        Step::MountOptions => ": cannot change the mount options",
        _ => "",
    }
}

/// Returns whether the file is in a `/proc`.
pub(crate) fn is_proc(file: &OwnedFd) -> bool {
    fstatfs(file).is_ok_and(|fs| fs.f_type == PROC_MAGIC)
}
