//! A container's mount namespace that is not made of a copy of the host's, which may have thousands of mounts.
//!
//! What the host must give is opened before the host's mounts are left, so that a bundle must name all of it: where a
//! source lies in a mount that was given, or a file system is made of others, there is a copy as ever.

use std::cell::RefCell;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use orlop_disk::detached;
use rustix::fs::{fstat, stat};

use super::CgroupMounts;
use super::idmap::Mappings;
use super::mounts::{By, MountStep, Opener, What, mounts};
use super::text::c_string;
use super::tree::Copied;
use crate::attached::Attached;
use crate::bundle::Bundle;
use crate::child::is_null;
use crate::error::{Result, While};
use crate::sys::{MountAttr, set_mount_attributes};

/// File systems that are made of nothing else.
const BY_THEMSELVES: [&[u8]; 6] = [
    b"proc", b"sysfs", b"tmpfs", b"devpts", b"mqueue", b"cgroup2",
];

/// A namespace with few mounts, and what is needed there.
#[derive(Debug)]
pub(crate) struct Few {
    pub(crate) namespace: OwnedFd,
    /// An empty directory there.
    pub(crate) place: CString,
    /// The host's null device, to hide files by.
    pub(crate) nothing: Option<OwnedFd>,
    /// The namespace's root, once it has been entered.
    pub(crate) root: Option<OwnedFd>,
}

impl Few {
    /// The namespace that was given, if there is one.
    pub(super) fn given(attached: &Attached, hides: bool) -> Result<Option<Self>> {
        let Some((namespace, place)) = attached.few() else {
            return Ok(None);
        };
        let nothing = if hides {
            let null = detached(c"/dev/null").doing(|| "/dev/null".to_owned())?;
            // Else whoever hides something tells so.
            let look = fstat(&null).doing(|| "/dev/null".to_owned())?;
            if !is_null(&look) {
                return Ok(None);
            }
            Some(null)
        } else {
            None
        };
        Ok(Some(Self {
            namespace: namespace.try_clone().doing(|| "a namespace".to_owned())?,
            place: c_string(place.as_os_str().as_bytes(), "a place of a mount")?,
            nothing,
            root: None,
        }))
    }
}

/// The mounts of a bundle, all that the host gives opened. Nothing where that will not do.
pub(super) fn opened(
    bundle: &Bundle,
    cgroups: &CgroupMounts<'_>,
    mappings: &mut Mappings,
    rootfs: &Path,
    host_propagation: (u64, bool),
) -> Option<Vec<MountStep>> {
    // A copy may be told that nothing it has reaches the host; there is no copy here to be told more.
    let (kind, true) = host_propagation else {
        return None;
    };
    if kind != libc::MS_SLAVE && kind != libc::MS_PRIVATE {
        return None;
    }
    let attached = &bundle.attached;
    // Each can be put somewhere once; the root has its place.
    let taken = RefCell::new(vec![rootfs.to_owned()]);
    let by = |source: &Path| {
        let given = attached.at(source)?;
        if given.is_some() && is_new(&taken, source) {
            return Ok(given.map_or(Opener::is(By::Child), Opener::given));
        }
        let lies_there = attached.places().any(|place| source.starts_with(place));
        Ok(Opener::is(if lies_there || given.is_some() {
            By::Child
        } else {
            By::Parent
        }))
    };
    // What is wrong is told by who tries it next.
    let steps = mounts(bundle, cgroups, mappings, false, Copied::Here, by).ok()?;
    let places: Vec<_> = attached
        .places()
        .map(stat)
        .collect::<rustix::io::Result<_>>()
        .ok()?;
    let is_place = |tree: &OwnedFd| {
        let look = fstat(tree);
        look.is_ok_and(|look| {
            let mut places = places.iter();
            places.any(|place| (place.st_dev, place.st_ino) == (look.st_dev, look.st_ino))
        })
    };
    let does = |step: &MountStep| match &step.what {
        What::Source { .. } => false,
        // By a link to where a mount belongs that is not there.
        What::Tree(tree) => !is_place(tree),
        What::Fresh(fresh) => BY_THEMSELVES.contains(&fresh.kind.to_bytes()),
        What::Change { .. } | What::Hierarchies { .. } | What::Unified { .. } => true,
    };
    let will_do = steps.iter().all(does) && steps.iter().all(|step| keep_apart(step, kind).is_ok());
    will_do.then_some(steps)
}

/// Makes what the host gives what it would be in a copy of the host's mounts, before it is told what else it is to be.
fn keep_apart(step: &MountStep, kind: u64) -> rustix::io::Result<()> {
    let What::Tree(tree) = &step.what else {
        return Ok(());
    };
    // All of it no longer is the host's then, in whatever way.
    if let Some((libc::MS_PRIVATE | libc::MS_SLAVE, true)) = step.propagation.first() {
        return Ok(());
    }
    set_mount_attributes(tree.as_fd(), true, &MountAttr::propagation(kind))
}

/// Whether a path was not taken before.
fn is_new(taken: &RefCell<Vec<PathBuf>>, path: &Path) -> bool {
    let mut taken = taken.borrow_mut();
    let is_new = taken.iter().all(|it| it != path);
    if is_new {
        taken.push(path.to_owned());
    }
    is_new
}
