//! A container's mount namespace that is not a copy of the host's, which may have thousands of mounts.
//!
//! All sources of the host are opened before the process leaves the host's mounts, so the bundle must name all of them.
//! If a source is inside a given mount, or a file system is made from others, the namespace is a copy of the host's as
//! usual.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use orlop_fs::detached;
use rustix::fs::{fstat, stat};

use super::cgroup_mount::CgroupMounts;
use super::idmap::Mappings;
use super::mounts::{Opener, mounts};
use super::options::MountOptions;
use super::text::c_string;
use super::tree::Copied;
use super::what::{By, MountStep, What};
use crate::bundle::Bundle;
use crate::error::{Result, While};
use crate::null::is_null;
use crate::sys::{MountAttr, set_mount_attributes};

/// File systems that need no source.
const BY_THEMSELVES: [&str; 7] = [
    "proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2",
];

/// A namespace with few mounts, and resources for its use.
#[derive(Debug)]
pub(crate) struct Few {
    pub(crate) namespace: OwnedFd,
    /// An empty directory in the namespace.
    pub(crate) place: CString,
    /// The host's null device, mounted over hidden files.
    pub(crate) nothing: Option<OwnedFd>,
    /// The root of the namespace, after it was entered.
    pub(crate) root: Option<OwnedFd>,
}

impl Few {
    /// Returns the given namespace, and the mounts of a bundle with all sources opened. `None` if no namespace was
    /// given or it cannot be used.
    pub(super) fn of(
        bundle: &Bundle,
        cgroups: &CgroupMounts<'_>,
        mappings: &mut Mappings,
        rootfs: &Path,
        host_propagation: (u64, bool),
        hides: bool,
    ) -> Result<Option<(Self, Vec<MountStep>)>> {
        let Some((namespace, place)) = bundle.attached.few() else {
            return Ok(None);
        };
        // A copy can be made private or slave of the host's mounts; here there is no copy, so other modes are not
        // possible.
        let (kind @ (libc::MS_SLAVE | libc::MS_PRIVATE), true) = host_propagation else {
            return Ok(None);
        };
        // Before a given mount is changed.
        if !will_do(bundle, rootfs) {
            return Ok(None);
        }
        let is_it = |null: &OwnedFd| fstat(null).is_ok_and(|look| is_null(&look));
        let nothing = match hides.then(|| detached(c"/dev/null")) {
            None => None,
            Some(Ok(null)) if is_it(&null) => Some(null),
            // The usual path reports the error for hidden files.
            Some(_) => return Ok(None),
        };
        let by = |source: &Path| {
            let given = bundle.attached.at(source)?;
            Ok(given.map_or(Opener::is(By::Parent), Opener::given))
        };
        // The usual path reports the error.
        let Ok(steps) = mounts(bundle, cgroups, mappings, false, Copied::Here, by) else {
            return Ok(None);
        };
        if steps.iter().any(|step| keep_apart(step, kind).is_err()) {
            return Ok(None);
        }
        let few = Self {
            namespace: namespace
                .try_clone()
                .doing(|| "cannot duplicate the descriptor of a mount namespace".to_owned())?,
            place: c_string(place.as_os_str().as_bytes(), "path of a mount")?,
            nothing,
            root: None,
        };
        Ok(Some((few, steps)))
    }
}

/// Returns whether each mount is a tree of the host's, a given mount that is used once as a whole, or needs no source.
fn will_do(bundle: &Bundle, rootfs: &Path) -> bool {
    let attached = &bundle.attached;
    let places = attached.places().map(|[_, place]| stat(place));
    let Ok(places) = places.collect::<rustix::io::Result<Vec<_>>>() else {
        return false;
    };
    // The root file system uses its mount.
    let mut taken: Vec<usize> = attached.which(rootfs).into_iter().collect();
    bundle.spec.mounts.iter().all(|mount| {
        let options = MountOptions::parse(&mount.options);
        if options.remount {
            return true;
        }
        if !options.bind && mount.kind != "bind" {
            return BY_THEMSELVES.contains(&mount.kind.as_str());
        }
        let source = bundle.dir.join(&mount.source);
        if let Some(at) = attached.which(&source) {
            let is_first = !taken.contains(&at);
            taken.push(at);
            return is_first;
        }
        let mut all = attached.places().flatten();
        if all.any(|place| source.starts_with(place)) {
            return false;
        }
        // A symlink may lead to the path of a given mount, which is not attached there.
        stat(&source).is_ok_and(|look| {
            let mut places = places.iter();
            !places.any(|place| (place.st_dev, place.st_ino) == (look.st_dev, look.st_ino))
        })
    })
}

/// Sets the propagation that the tree would have in a copy of the host's mounts, before its own options apply.
fn keep_apart(step: &MountStep, kind: u64) -> rustix::io::Result<()> {
    let What::Tree(tree) = &step.what else {
        return Ok(());
    };
    // Its own propagation already separates the whole tree from the host.
    if let Some((libc::MS_PRIVATE | libc::MS_SLAVE, true)) = step.propagation.first() {
        return Ok(());
    }
    set_mount_attributes(tree.as_fd(), true, &MountAttr::propagation(kind))
}
