//! A nearly empty mount namespace, from which keepers create their own. Otherwise each keeper would copy the host's
//! mount table, which may have thousands of mounts. With shared propagation, each later mount on the host would also be
//! copied to each pod.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use orlop_keeper_protocol::{FEW_MOUNTS_PLACES, FEW_MOUNTS_ROOT};
use orlop_pool::started;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, open, stat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, unmount,
};
use rustix::process::{fchdir, pivot_root};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// Creates the namespace: an empty filesystem and the root that the kernel has below every root. The returned
/// descriptor keeps it alive.
///
/// Fails if the root cannot be changed because it is not a mount, as on an initial ramdisk, or not the root of the
/// namespace.
pub fn few_mounts() -> io::Result<OwnedFd> {
    let thread = std::thread::Builder::new().name("orlop-mounts".to_owned());
    let made = started(thread.spawn(leave_all))?.join();
    made.map_err(|_| io::Error::other("the thread that creates the mount namespace panicked"))?
}

/// Leaves all mounts of the host, in this thread only.
fn leave_all() -> io::Result<OwnedFd> {
    // SAFETY: only the mounts, root and working directory of this thread change; it is about to end.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let all = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", all)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let namespace = open("/proc/thread-self/ns/mnt", flags, Mode::empty())?;
    let empty = file_system()?;
    let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&empty, "", CWD, "/", from)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fchdir(&empty)?;
    // The old root is now mounted over the new one, and is unmounted from there.
    let old = open("/", flags, Mode::empty())?;
    pivot_root(".", ".")?;
    fchdir(&old)?;
    unmount(".", UnmountFlags::DETACH)?;
    // Enter the namespace again, as keepers do, which leads to its root.
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
    stat(Path::new("/").join(FEW_MOUNTS_PLACES))?;
    Ok(namespace)
}

/// A filesystem that contains only the directories used as mount points.
fn file_system() -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [
        ("source", "orlop"),
        ("mode", "0700"),
        ("nr_blocks", "1"),
        ("nr_inodes", "4"),
    ] {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    fsconfig_create(context.as_fd())?;
    let attr = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attr)?;
    for name in [FEW_MOUNTS_PLACES, FEW_MOUNTS_ROOT] {
        mkdirat(&mount, name, Mode::from_raw_mode(0o700))?;
    }
    Ok(mount)
}
