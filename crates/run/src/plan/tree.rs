//! What is bound of the host's besides volumes: device nodes, cgroups.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::{Errno, Result, dup};
use rustix::mount::{OpenTreeFlags, open_tree};

use super::mounts::{detach, name};
use crate::sys::{MountAttr, set_mount_attributes};

/// A file or a directory of the host's, without what is mounted below it.
#[derive(Debug)]
pub(crate) enum Tree {
    /// A detached copy, made before the clone.
    Copied(OwnedFd),
    /// What is copied only in the container's mounts, as whoever may copy none elsewhere has it.
    Named { path: CString, attr: MountAttr },
}

/// Where a copy is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// By the parent, before the clone.
    Here,
    /// By the child, in the container's mounts.
    There,
}

impl Tree {
    /// One with these attributes added.
    pub(crate) fn open(path: &Path, attr: MountAttr, copied: Copied) -> Result<Self> {
        if copied == Copied::There {
            // What is not there at all is told with its name.
            drop(name(path)?);
            let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
            return Ok(Self::Named { path, attr });
        }
        let tree = detach(path, false)?;
        if !attr.is_nothing() {
            set_mount_attributes(tree.as_fd(), false, &attr)?;
        }
        Ok(Self::Copied(tree))
    }

    /// The copy. Allocates nothing.
    pub(crate) fn copy(&self) -> Result<OwnedFd> {
        let (path, attr) = match self {
            Self::Copied(tree) => return dup(tree),
            Self::Named { path, attr } => (path, attr),
        };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(CWD, path.as_c_str(), flags)?;
        if !attr.is_nothing() {
            set_mount_attributes(tree.as_fd(), false, attr)?;
        }
        Ok(tree)
    }
}
