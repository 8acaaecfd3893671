//! The keeper's own mounts.
//!
//! The mounts are in the keeper's own mount namespace and end with it. That namespace is a copy of one with very few
//! mounts. The keeper still finds the node's files, because its root stays the node's root, and it mounts below a
//! directory of its own. If there is no such namespace, or it cannot be entered, the keeper copies the node's namespace
//! and mounts at the final paths.

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

/// The mount namespaces in which the keeper mounts.
#[derive(Debug)]
pub(crate) struct Mounts {
    /// The daemon's mount namespace.
    pub(super) host: OwnedFd,
    /// The keeper's own namespace, if it has few mounts.
    pub(super) few: Option<Few>,
    next: u32,
}

/// A mount namespace with few mounts.
#[derive(Debug)]
pub(super) struct Few {
    pub(super) namespace: OwnedFd,
    directory: OwnedFd,
}

/// A mount, and its path in the containers.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(super) path: PathBuf,
    /// Path of the mount in the keeper's namespace.
    pub(super) at: PathBuf,
}

impl Mounts {
    /// Leaves the daemon's mount namespace. The message is the reason why the keeper fell back to a copy.
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
        // Shared mounts stay shared: mounts still propagate both ways, except below private directories.
        unshare(UnshareFlags::NEWNS)
            .map_err(|error| format!("cannot create a mount namespace: {error}"))?;
        Ok((Self::new(host, None), told))
    }

    fn new(host: OwnedFd, few: Option<Few>) -> Self {
        Self { host, few, next: 0 }
    }

    /// Attaches a detached mount, which containers see at this path.
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

    /// Creates a mount point for a mount that containers see at this path.
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
    /// Unmounts the mount. It is not an error if it is already unmounted.
    pub(crate) fn undo(&self) -> rustix::io::Result<()> {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        match unmount(&self.at, flags) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            failed => return failed,
        }
        self.remove();
        Ok(())
    }

    /// Returns the path to show in messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the mount point, if it was made for this mount alone.
    fn remove(&self) {
        if self.at != self.path && std::fs::remove_dir(&self.at).is_err() {
            let _ = std::fs::remove_file(&self.at);
        }
    }
}

/// Unmounts mounts, the last one first. Returns the one that could not be unmounted, and why.
pub(crate) fn unmount_all(mounts: &mut Vec<Placed>) -> Option<String> {
    while let Some(mount) = mounts.last() {
        if let Err(error) = mount.undo() {
            return Some(format!("unmounting {}: {error}", mount.path().display()));
        }
        mounts.pop();
    }
    None
}

/// Enters a copy of a namespace with few mounts and keeps this root. Returns a directory for more mounts.
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
