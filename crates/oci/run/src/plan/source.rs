//! Sources of bind mounts.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use orlop_oci_types::Mount;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};

use super::idmap::Mappings;
use super::options::{Idmap, MountOptions};
use super::text::c_string;
use crate::error::{Result, While};
use crate::report::Step;
use crate::sys::{MountAttr, set_mount_attributes};

/// A tree of the host, by its path, and its mount attributes.
#[derive(Debug)]
pub(crate) struct Source {
    path: CString,
    recursive: bool,
    /// The namespace for its ID mapping, and whether that applies to all mounts below.
    users: Option<(OwnedFd, bool)>,
    attr: MountAttr,
    /// Whether the kernel locks protective mount attributes (such as `ro` and `nosuid`), so that they cannot be
    /// cleared: true in a user namespace other than the host's.
    locked: bool,
    recursive_attr: MountAttr,
}

impl Source {
    pub(super) fn new(
        path: &Path,
        options: &MountOptions,
        mount: &Mount,
        mappings: &mut Mappings,
        locked: bool,
    ) -> Result<Self> {
        let mapped = !mount.uid_mappings.is_empty() || !mount.gid_mappings.is_empty();
        let users = if mapped || options.idmap.is_some() {
            let users = mappings.users(&mount.uid_mappings, &mount.gid_mappings)?;
            let users = users
                .try_clone()
                .doing(|| "cannot duplicate the descriptor of a user namespace".to_owned())?;
            Some((users, options.idmap == Some(Idmap::Tree)))
        } else {
            None
        };
        Ok(Self {
            path: c_string(path.as_os_str().as_bytes(), "source")?,
            recursive: options.rbind,
            users,
            attr: options.of_bind(locked),
            locked,
            recursive_attr: options.recursive_attr,
        })
    }

    /// Makes a detached copy with its attributes. Allocates nothing.
    pub(crate) fn open(&self) -> Result<OwnedFd, (Step, Errno)> {
        let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        if self.recursive {
            flags |= OpenTreeFlags::AT_RECURSIVE;
        }
        let tree = open_tree(CWD, self.path.as_c_str(), flags)
            .map_err(|errno| (Step::MountSource, errno))?;
        self.dress(&tree)?;
        Ok(tree)
    }

    /// Applies the attributes to a detached mount. Allocates nothing.
    pub(super) fn dress(&self, tree: &OwnedFd) -> Result<(), (Step, Errno)> {
        if self.locked
            && self
                .attr
                .unlocks(tree)
                .map_err(|errno| (Step::MountOptions, errno))?
        {
            return Err((Step::MountOptions, Errno::PERM));
        }
        if let Some((users, all)) = &self.users {
            let attr = MountAttr {
                set: MountAttr::IDMAP,
                userns: users.as_raw_fd() as u64,
                ..MountAttr::default()
            };
            set_mount_attributes(tree.as_fd(), *all, &attr)
                .map_err(|errno| (Step::MountIds, errno))?;
        }
        for (attr, all) in [(&self.attr, false), (&self.recursive_attr, true)] {
            if !attr.is_nothing() {
                set_mount_attributes(tree.as_fd(), all, attr)
                    .map_err(|errno| (Step::MountOptions, errno))?;
            }
        }
        Ok(())
    }
}
