//! The namespaces of a container.

use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use orlop_oci_types::{Linux, NamespaceKind};
use rustix::fs::{Mode, OFlags, fstat, open};

use crate::error::{Error, Result, While};
use crate::sys::namespace_kind;

/// Namespaces to create and to join.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    /// `CLONE_NEW…` flags of the namespaces to create.
    pub(crate) new: u64,
    /// Existing namespaces to join.
    pub(crate) join: Vec<Join>,
    /// The user namespace to join.
    pub(crate) user: Option<OwnedFd>,
    /// Whether to create a cgroup namespace, once the process is in its cgroup.
    pub(crate) new_cgroup: bool,
    /// The content of `timens_offsets` for a new time namespace.
    pub(crate) new_time: Option<String>,
    /// Whether the new mount namespace is a copy of another one than the caller's, which must be entered first.
    pub(crate) enters_mounts: bool,
    /// Flags of all kinds that are not the caller's.
    pub(crate) all: u64,
    /// Flags of kinds that are joined by path and turn out to be the caller's.
    own: u64,
}

/// A namespace to join.
#[derive(Debug)]
pub(crate) struct Join {
    /// `CLONE_NEW…`.
    pub(crate) kind: u64,
    pub(crate) file: OwnedFd,
    /// The index in `linux.namespaces`.
    pub(crate) index: u16,
}

/// `CLONE_NEWTIME`, which some C headers lack.
pub(crate) const NEW_TIME: u64 = 0x80;

impl Namespaces {
    /// Opens the existing namespaces.
    pub(crate) fn open(linux: &Linux) -> Result<Self> {
        let mut namespaces = Self::default();
        for (index, namespace) in linux.namespaces.iter().enumerate() {
            let kind = flag(namespace.kind);
            let path = namespace.path.as_str();
            let told = || format!("linux.namespaces[{index}].path: {path}");
            if path.is_empty() {
                namespaces.all |= kind;
                match namespace.kind {
                    NamespaceKind::Cgroup => namespaces.new_cgroup = true,
                    NamespaceKind::Time => namespaces.new_time = Some(offsets(linux)?),
                    _ => namespaces.new |= kind,
                }
                continue;
            }
            let file = open(
                path,
                OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
                Mode::empty(),
            )
            .doing(|| format!("{}: lstat {path}", told()))?;
            check(&file, namespace.kind).map_err(|error| error.within(told()))?;
            if namespace.kind == NamespaceKind::User {
                if is_own(&file, "user") {
                    continue;
                }
                namespaces.user = Some(file);
            } else {
                if is_own(&file, file_name(namespace.kind)) {
                    namespaces.own |= kind;
                }
                namespaces.join.push(Join {
                    kind,
                    file,
                    index: index as u16,
                });
            }
            namespaces.all |= kind;
        }
        if namespaces.new & libc::CLONE_NEWUSER as u64 != 0 {
            let maps = !linux.uid_mappings.is_empty() && !linux.gid_mappings.is_empty();
            if !maps {
                return Err(Error::new(
                    "linux.uidMappings: user namespaces enabled, but no uid/gid mappings found",
                ));
            }
        }
        Ok(namespaces)
    }

    /// Returns the flags for the clone. With a new user namespace the IPC namespace is not among them: its message
    /// queues belong to the creator, who must be root of that user namespace.
    pub(crate) fn by_clone(&self) -> u64 {
        if self.has_users() {
            self.new & !(libc::CLONE_NEWIPC as u64)
        } else if self.enters_mounts {
            self.new & !(libc::CLONE_NEWNS as u64)
        } else {
            self.new
        }
    }

    /// Returns whether this kind is created or joined.
    pub(crate) fn has(&self, kind: NamespaceKind) -> bool {
        self.all & flag(kind) != 0
    }

    /// Returns whether this kind differs from the caller's namespace.
    pub(crate) fn is_apart(&self, kind: NamespaceKind) -> bool {
        self.has(kind) && self.own & flag(kind) == 0
    }

    /// Returns whether this kind is created.
    pub(crate) fn makes(&self, kind: NamespaceKind) -> bool {
        self.new & flag(kind) != 0
    }

    /// Returns whether the container's user namespace is not the caller's.
    pub(crate) fn has_users(&self) -> bool {
        self.has(NamespaceKind::User)
    }
}

/// Returns the clone flag of a kind.
pub(crate) fn flag(kind: NamespaceKind) -> u64 {
    match kind {
        NamespaceKind::Pid => libc::CLONE_NEWPID as u64,
        NamespaceKind::Network => libc::CLONE_NEWNET as u64,
        NamespaceKind::Mount => libc::CLONE_NEWNS as u64,
        NamespaceKind::Ipc => libc::CLONE_NEWIPC as u64,
        NamespaceKind::Uts => libc::CLONE_NEWUTS as u64,
        NamespaceKind::User => libc::CLONE_NEWUSER as u64,
        NamespaceKind::Cgroup => libc::CLONE_NEWCGROUP as u64,
        NamespaceKind::Time => NEW_TIME,
    }
}

/// Returns the name of a kind in `/proc/<pid>/ns`.
fn file_name(kind: NamespaceKind) -> &'static str {
    match kind {
        NamespaceKind::Pid => "pid",
        NamespaceKind::Network => "net",
        NamespaceKind::Mount => "mnt",
        NamespaceKind::Ipc => "ipc",
        NamespaceKind::Uts => "uts",
        NamespaceKind::User => "user",
        NamespaceKind::Cgroup => "cgroup",
        NamespaceKind::Time => "time",
    }
}

/// Refuses a file that is not a namespace of this kind.
fn check(file: &OwnedFd, kind: NamespaceKind) -> Result<()> {
    /// `NSFS_MAGIC`.
    const NSFS: i64 = 0x6e73_6673;
    let fs = rustix::fs::fstatfs(file).doing(|| "cannot get its filesystem type".to_owned())?;
    let actual = namespace_kind(file.as_fd());
    if fs.f_type as i64 != NSFS || actual.is_some_and(|actual| actual != flag(kind)) {
        return Err(Error::new(format!("not a {} namespace", file_name(kind))));
    }
    Ok(())
}

fn is_own(file: &OwnedFd, name: &str) -> bool {
    let own = std::fs::metadata(Path::new("/proc/self/ns").join(name));
    match (own, fstat(file)) {
        (Ok(own), Ok(other)) => (own.dev(), own.ino()) == (other.st_dev, other.st_ino),
        _ => false,
    }
}

fn offsets(linux: &Linux) -> Result<String> {
    let mut text = String::new();
    for (clock, offset) in &linux.time_offsets {
        if !matches!(clock.as_str(), "monotonic" | "boottime") {
            return Err(Error::new(format!(
                "linux.timeOffsets.{clock}: unknown clock; use monotonic or boottime"
            )));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{clock} {} {}", offset.secs, offset.nanosecs);
    }
    Ok(text)
}
