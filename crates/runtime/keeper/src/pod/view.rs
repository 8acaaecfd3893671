//! What a runtime sees of the file system when it makes a container.
//!
//! The keeper's own mount namespace has none of the host's mounts, or those of the time when the pod was made. So each
//! container is made in a copy of the host's namespace as it is now, with the container's own mounts put in place. The
//! copy lives as long as the runtime's call; the container has its copy of it by then. A runtime that can put the
//! mounts in their places itself is in the host's own and given them: a node may have thousands of mounts to be
//! copied. It is also given the keeper's namespace with few mounts, if that is one, to make the container's of.

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

/// A view being prepared: all that needs memory is done before there is a process.
#[derive(Debug)]
pub(crate) struct View {
    host: OwnedFd,
    few: Option<OwnedFd>,
    mounts: Vec<(OwnedFd, CString)>,
    cwd: CString,
    by: By,
}

/// Who puts mounts in their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The process that becomes the runtime, in a mount namespace of its own.
    Keeper,
    /// The runtime, in the container's.
    Runtime,
}

impl View {
    /// A view of the host with copies of mounts that the keeper has at these places.
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
        // Each is told on a line.
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

    /// Whether it is a mount namespace of its own.
    pub(crate) fn is_own(&self) -> bool {
        self.by == By::Keeper
    }

    /// What tells the runtime of the mounts, if those are its own to put in their places.
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

    /// Enters the view. Called before a program is executed, in its process: system calls only.
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
        // Changing the namespace has moved us to its root.
        chdir(self.cwd.as_c_str())
    }
}

fn text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}
