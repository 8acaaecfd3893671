//! The file system that a runtime sees when it creates a container.
//!
//! The keeper's own mount namespace has none of the host's mounts, or those of the time when the pod was created. So
//! each container is created in a copy of the host's current namespace, with the container's mounts put in place. The
//! copy lives as long as the runtime's call; the container then has its own copy. Some runtimes can put the mounts in
//! place themselves. They run in the host's own namespace and receive the mounts as descriptors, because copying a
//! node's thousands of mounts is slow. They also receive the keeper's namespace with few mounts, if there is one, as
//! the base of the container's.

use std::ffi::{CString, OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use orlop_keeper_protocol::FEW_MOUNTS_ROOT;
use rustix::fs::CWD;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::process::chdir;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::mounts::{Mounts, Placed};
use crate::sys::namespace::{UnshareFlags, unshare};

/// A view in preparation: everything that allocates is done before the process exists.
#[derive(Debug)]
pub(crate) struct View {
    host: OwnedFd,
    few: Option<OwnedFd>,
    mounts: Vec<(OwnedFd, CString)>,
    cwd: CString,
    by: By,
}

/// The process that puts mounts in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The process that becomes the runtime, in its own mount namespace.
    Keeper,
    /// The runtime, in the container's mount namespace.
    Runtime,
}

impl View {
    /// Returns a view of the host with copies of the keeper's mounts at these paths.
    pub(crate) fn new<'a>(
        own: &Mounts,
        mounts: impl Iterator<Item = &'a Placed>,
        cwd: &Path,
        by: By,
    ) -> io::Result<Self> {
        let copy = |mount: &'a Placed| {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            Ok((open_tree(CWD, &mount.at, flags)?, text(&mount.path)?))
        };
        let mounts = mounts.map(copy).collect::<io::Result<Vec<_>>>()?;
        // The environment lists one mount per line.
        let is_line = |(_, path): &(OwnedFd, CString)| !path.as_bytes().contains(&b'\n');
        let by = if mounts.iter().all(is_line) {
            by
        } else {
            By::Keeper
        };
        Ok(Self {
            host: own.host.try_clone()?,
            few: match &own.few {
                Some(few) if by == By::Runtime && !mounts.is_empty() => {
                    Some(few.namespace.try_clone()?)
                }
                _ => None,
            },
            by,
            mounts,
            cwd: text(if cwd.as_os_str().is_empty() {
                Path::new("/")
            } else {
                cwd
            })?,
        })
    }

    /// Returns whether the view is a mount namespace of its own.
    pub(crate) fn is_own(&self) -> bool {
        self.by == By::Keeper
    }

    /// Returns the environment variables that describe the mounts, if the runtime puts them in place.
    pub(crate) fn environment(&self) -> impl Iterator<Item = OsString> {
        let few = self.few.as_ref().map(|few| {
            let few = few.as_raw_fd();
            OsString::from(format!("ORLOP_RUN_NAMESPACE={few} /{FEW_MOUNTS_ROOT}"))
        });
        self.told().into_iter().chain(few)
    }

    fn told(&self) -> Option<OsString> {
        if self.is_own() || self.mounts.is_empty() {
            return None;
        }
        let mut told = OsString::from("ORLOP_RUN_MOUNTS=");
        for (mount, path) in &self.mounts {
            let _ = write!(told, "{} ", mount.as_raw_fd());
            told.push(OsStr::from_bytes(path.as_bytes()));
            told.push("\n");
        }
        Some(told)
    }

    /// Enters the view. Runs in the new process before it executes a program, so it makes system calls only.
    pub(crate) fn enter(&self) -> rustix::io::Result<()> {
        move_into_link_name_space(self.host.as_fd(), Some(LinkNameSpaceType::Mount))?;
        if self.is_own() {
            unshare(UnshareFlags::NEWNS)?;
        }
        if let Some(few) = &self.few {
            fcntl_setfd(few, FdFlags::empty())?;
        }
        for (mount, path) in &self.mounts {
            if !self.is_own() {
                fcntl_setfd(mount, FdFlags::empty())?;
                continue;
            }
            move_mount(
                mount,
                c"",
                CWD,
                path,
                MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
            )?;
        }
        // Entering the namespace has changed the directory to its root.
        chdir(self.cwd.as_c_str())
    }
}

fn text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
