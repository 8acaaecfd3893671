//! A container's mount namespace that is not made of a copy of the host's, which may have thousands of mounts.
//!
//! What the host must give is opened before the host's mounts are left, so that a bundle must name all of it: where a
//! source lies in a mount that was given, or a file system is made of others, there is a copy as ever.

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

/// File systems that are made of nothing else.
const BY_THEMSELVES: [&str; 7] = [
    "proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2",
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
    /// The namespace that was given, and the mounts of a bundle, all that the host gives opened. Nothing where none
    /// was given, or that will not do.
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
        // A copy may be told that nothing it has reaches the host; there is no copy here to be told more.
        let (kind @ (libc::MS_SLAVE | libc::MS_PRIVATE), true) = host_propagation else {
            return Ok(None);
        };
        // Before something is made of a mount that was given.
        if !will_do(bundle, rootfs) {
            return Ok(None);
        }
        let is_it = |null: &OwnedFd| fstat(null).is_ok_and(|look| is_null(&look));
        let nothing = match hides.then(|| detached(c"/dev/null")) {
            None => None,
            Some(Ok(null)) if is_it(&null) => Some(null),
            // Whoever hides something tells so.
            Some(_) => return Ok(None),
        };
        let by = |source: &Path| {
            let given = bundle.attached.at(source)?;
            Ok(given.map_or(Opener::is(By::Parent), Opener::given))
        };
        // What is wrong is told by who tries it next.
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

/// Whether all that is mounted is the host's, or given and used once as a whole, or made of nothing else.
fn will_do(bundle: &Bundle, rootfs: &Path) -> bool {
    let attached = &bundle.attached;
    let places = attached.places().map(|[_, place]| stat(place));
    let Ok(places) = places.collect::<rustix::io::Result<Vec<_>>>() else {
        return false;
    };
    // The root has its place.
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
        // By a link to where a mount belongs that is not there.
        stat(&source).is_ok_and(|look| {
            let mut places = places.iter();
            !places.any(|place| (place.st_dev, place.st_ino) == (look.st_dev, look.st_ino))
        })
    })
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
