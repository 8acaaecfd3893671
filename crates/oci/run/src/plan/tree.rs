//! Bind mounts of the host besides volumes: device nodes, cgroups.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use orlop_fs::detached;
use rustix::io::{Errno, Result};
use rustix::path::Arg;

use crate::mount::name;
use crate::sys::{MountAttr, set_mount_attributes};

/// A file or directory of the host, without the mounts below it.
#[derive(Debug)]
pub(crate) enum Tree {
    /// A detached copy, made before the clone.
    Copied(OwnedFd),
    /// A path that is copied in the container's mount namespace, because the caller may copy none elsewhere.
    Named { path: CString, attr: MountAttr },
}

/// The process that makes a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// By the parent, before the clone.
    Here,
    /// By the child, in the container's mounts.
    There,
}

impl Tree {
    /// Opens a tree and adds these attributes.
    pub(crate) fn open(path: &Path, attr: MountAttr, copied: Copied) -> Result<Self> {
        if copied == Copied::There {
            // A missing file is reported with its name.
            drop(name(path)?);
            let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
            return Ok(Self::Named { path, attr });
        }
        copy(path, &attr).map(Self::Copied)
    }

    /// Passes the copy to `work`; makes a temporary copy if there is none. Allocates nothing.
    pub(crate) fn using<T>(&self, work: impl FnOnce(BorrowedFd<'_>) -> Result<T>) -> Result<T> {
        match self {
            Self::Copied(tree) => work(tree.as_fd()),
            Self::Named { path, attr } => work(copy(path.as_c_str(), attr)?.as_fd()),
        }
    }
}

fn copy(path: impl Arg, attr: &MountAttr) -> Result<OwnedFd> {
    let tree = detached(path)?;
    // Mounts added there in the container must not propagate to the host.
    let attr = MountAttr {
        propagation: libc::MS_SLAVE,
        ..*attr
    };
    set_mount_attributes(tree.as_fd(), false, &attr)?;
    Ok(tree)
}
