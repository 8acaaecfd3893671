//! A mount namespace with next to no mounts, of which keepers make theirs. A copy of the node's own is one of all its
//! mounts, of which there may be thousands: for each pod, and again at each later mount of a node whose mounts are
//! shared.
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

/// Makes one: an empty file system and what the kernel has below every root. It is held by the descriptor.
///
/// It cannot be made where the root itself is no mount that could be changed for another, as on an initial ramdisk, or
/// not that of the namespace.
pub fn few_mounts() -> io::Result<OwnedFd> {
    let thread = std::thread::Builder::new().name("orlop-mounts".to_owned());
    let made = started(thread.spawn(leave_all))?.join();
    made.map_err(|_| io::Error::other("the thread that creates the mount namespace panicked"))?
}

/// Leaves all mounts of the node, with this thread alone.
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
    // The old root lies over the new one then, from where it is let go.
    let old = open("/", flags, Mode::empty())?;
    pivot_root(".", ".")?;
    fchdir(&old)?;
    unmount(".", UnmountFlags::DETACH)?;
    // As whoever enters it comes to its root.
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))?;
    stat(Path::new("/").join(FEW_MOUNTS_PLACES))?;
    Ok(namespace)
}

/// Empty but for the directories that something is put on.
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
