//! What a runtime sees of the file system when it makes a container.
//!
//! The keeper's own mount namespace is as old as the pod, and where the host's mounts are not
//! shared it never learns of newer ones. So each container is made in a copy of the host's
//! namespace as it is now, with the container's own mounts put in place. The copy lives as long
//! as the runtime's call; the container has its copy of it by then.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::process::chdir;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys::namespace::{UnshareFlags, unshare};

/// A view being prepared: all that needs memory is done before there is a process.
#[derive(Debug)]
pub(crate) struct View {
    host: OwnedFd,
    mounts: Vec<(OwnedFd, CString)>,
    cwd: CString,
}

impl View {
    /// A view of the host with copies of mounts that the keeper has at these places.
    pub(crate) fn new<'a>(
        host: BorrowedFd<'_>,
        mounts: impl Iterator<Item = &'a PathBuf>,
        cwd: &Path,
    ) -> io::Result<Self> {
        let copy = |path: &'a PathBuf| {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            Ok((open_tree(CWD, path, flags)?, text(path)?))
        };
        Ok(Self {
            host: host.try_clone_to_owned()?,
            mounts: mounts.map(copy).collect::<io::Result<_>>()?,
            cwd: text(if cwd.as_os_str().is_empty() {
                Path::new("/")
            } else {
                cwd
            })?,
        })
    }

    /// Enters the view. Called before a program is executed, in its process: system calls only.
    pub(crate) fn enter(&self) -> rustix::io::Result<()> {
        move_into_link_name_space(self.host.as_fd(), Some(LinkNameSpaceType::Mount))?;
        unshare(UnshareFlags::NEWNS)?;
        for (mount, path) in &self.mounts {
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
