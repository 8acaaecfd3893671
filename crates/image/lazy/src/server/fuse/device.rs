//! The kernel interface: `/dev/fuse`, the mount, and notifications.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, move_mount,
};

use super::number::{ROOT, notice};
use super::reply::Reply;

/// Opens the device, which starts a session.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/fuse", flags, Mode::empty())?)
}

/// Mounts the session's file system.
pub(crate) fn mount(fuse: impl AsFd, at: &Path) -> io::Result<()> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let number = fuse.as_fd().as_raw_fd().to_string();
    for (key, value) in [
        ("source", "orlop-lazy"),
        ("subtype", "orlop-lazy"),
        ("fd", &number),
        ("rootmode", "40555"),
        ("user_id", "0"),
        ("group_id", "0"),
    ] {
        fsconfig_set_string(&context, key, value)?;
    }
    for flag in ["ro", "allow_other", "default_permissions"] {
        fsconfig_set_flag(&context, flag)?;
    }
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_NOATIME;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(&mount, "", CWD, at, flags)?)
}

/// Asks the kernel to resend unanswered requests.
pub(crate) fn send_again(fuse: impl AsFd) -> rustix::io::Result<()> {
    notify(fuse, notice::RESEND, &[])
}

/// Invalidates a name in the kernel's cache; returns whether the kernel knew it.
pub(crate) fn forget_name(fuse: impl AsFd, name: &str) -> bool {
    let mut body = Vec::with_capacity(17 + name.len());
    body.extend_from_slice(&ROOT.to_ne_bytes());
    body.extend_from_slice(&(name.len() as u32).to_ne_bytes());
    body.extend_from_slice(&0_u32.to_ne_bytes());
    body.extend_from_slice(name.as_bytes());
    body.push(0);
    notify(fuse, notice::INVAL_ENTRY, &body) != Err(Errno::NOENT)
}

/// Sends a notification. It looks like a reply to no request, with its number in place of the error.
fn notify(fuse: impl AsFd, number: i32, body: &[u8]) -> rustix::io::Result<()> {
    let mut bytes = Reply::head(0, 16 + body.len(), None).to_vec();
    bytes[4..8].copy_from_slice(&number.to_ne_bytes());
    bytes.extend_from_slice(body);
    rustix::io::write(fuse, &bytes).map(|_| ())
}
