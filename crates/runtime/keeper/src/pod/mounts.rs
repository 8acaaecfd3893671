//! The keeper's own mounts.
//!
//! They are in a namespace of its own, and go with it. That is made of one with next to no mounts: the keeper finds
//! the node's files as before, as its root is still the node's, and its mounts are below a directory of its own. Where
//! there is none, or it cannot be entered, it is a copy of the node's, and they are where they belong.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use orlop_keeper_protocol::FEW_MOUNTS_PLACES;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, open, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};
use rustix::process::{chroot, fchdir};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::sys::namespace::{UnshareFlags, unshare};

/// Where mounts are made.
#[derive(Debug)]
pub(crate) struct Mounts {
    /// The daemon's mount namespace.
    pub(super) host: OwnedFd,
    /// The keeper's own, if it has few.
    pub(super) few: Option<Few>,
    next: u32,
}

/// A namespace with few mounts.
#[derive(Debug)]
pub(super) struct Few {
    pub(super) namespace: OwnedFd,
    directory: OwnedFd,
}

/// A mount, and the path that it is found by in containers.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(super) path: PathBuf,
    /// Where it is.
    pub(super) at: PathBuf,
}

impl Mounts {
    /// Leaves the daemon's mount namespace. What is told is why it was left for a copy.
    pub(super) fn leave(few: Option<OwnedFd>) -> Result<(Self, Option<String>), String> {
        let namespace = |path: &str| {
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| format!("opening {path}: {error}"))
        };
        let host = namespace("/proc/self/ns/mnt")?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            open("/", flags, Mode::empty()).map_err(|error| format!("opening /: {error}"))?;
        let told = match few.map(|few| enter(few, &root)) {
            None => None,
            Some(Ok(directory)) => {
                let few = Few {
                    namespace: namespace("/proc/self/ns/mnt")?,
                    directory,
                };
                return Ok((Self::new(host, Some(few)), None));
            }
            Some(Err(error)) => {
                move_into_link_name_space(host.as_fd(), Some(LinkNameSpaceType::Mount))
                    .and_then(|()| fchdir(&root))
                    .and_then(|()| chroot("."))
                    .map_err(|error| {
                        format!("cannot return to the host's mount namespace: {error}")
                    })?;
                Some(format!("cannot enter the minimal mount namespace: {error}"))
            }
        };
        // What was shared stays so: mounts go on to propagate both ways, except below private directories.
        unshare(UnshareFlags::NEWNS)
            .map_err(|error| format!("cannot create a mount namespace: {error}"))?;
        Ok((Self::new(host, None), told))
    }

    fn new(host: OwnedFd, few: Option<Few>) -> Self {
        Self { host, few, next: 0 }
    }

    /// Puts a detached mount where containers have it at this path.
    pub(crate) fn put(&mut self, mount: &OwnedFd, path: PathBuf) -> io::Result<Placed> {
        let look = fstat(mount)?;
        let is_directory = FileType::from_raw_mode(look.st_mode) == FileType::Directory;
        let placed = self.place(path, is_directory)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        match move_mount(mount, "", CWD, &placed.at, flags) {
            Ok(()) => Ok(placed),
            Err(error) => {
                placed.remove();
                Err(error.into())
            }
        }
    }

    /// A place for a mount that is to be had at this path.
    pub(super) fn place(&mut self, path: PathBuf, is_directory: bool) -> io::Result<Placed> {
        let Some(few) = &self.few else {
            let at = path.clone();
            return Ok(Placed { path, at });
        };
        let name = self.next.to_string();
        let mode = Mode::from_raw_mode(0o700);
        if is_directory {
            mkdirat(&few.directory, &name, mode)?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            drop(openat(&few.directory, &name, flags, mode)?);
        }
        self.next += 1;
        let at = format!("/proc/self/fd/{}/{name}", few.directory.as_raw_fd());
        Ok(Placed {
            path,
            at: at.into(),
        })
    }
}

impl Placed {
    /// Undoes it. That somebody else has is no error.
    pub(crate) fn undo(&self) -> rustix::io::Result<()> {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        match unmount(&self.at, flags) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            failed => return failed,
        }
        self.remove();
        Ok(())
    }

    /// Where it is, for what is told.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the place that was made for it alone.
    fn remove(&self) {
        if self.at != self.path && std::fs::remove_dir(&self.at).is_err() {
            let _ = std::fs::remove_file(&self.at);
        }
    }
}

/// Undoes mounts, the last first. Returns what could not be undone, and why.
pub(crate) fn unmount_all(mounts: &mut Vec<Placed>) -> Option<String> {
    while let Some(mount) = mounts.last() {
        if let Err(error) = mount.undo() {
            return Some(format!("unmounting {}: {error}", mount.path().display()));
        }
        mounts.pop();
    }
    None
}

/// Enters a copy of a namespace with few mounts, with this root as before. Returns a directory for more of them.
fn enter(few: OwnedFd, root: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    move_into_link_name_space(few.as_fd(), Some(LinkNameSpaceType::Mount))?;
    unshare(UnshareFlags::NEWNS)?;
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [("source", "orlop"), ("mode", "0700"), ("nr_blocks", "1")] {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attr = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let directory = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attr)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&directory, "", CWD, FEW_MOUNTS_PLACES, flags)?;
    fchdir(root)?;
    chroot(".")?;
    Ok(directory)
}
