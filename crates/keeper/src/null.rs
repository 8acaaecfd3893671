//! A null device of a container's own.
//!
//! Runtimes make a container's standard streams its user's (`fchown`). With the node's own
//! `/dev/null` among them (crun does not look), a tenant would own the device of everybody.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fstat, makedev, mkdirat, mknodat, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Where programs know it to be.
const NULL: &str = "dev/null";

/// The same stream, or one of its own where it is the null device.
pub(crate) fn not_the_nodes(stream: OwnedFd) -> io::Result<OwnedFd> {
    let status = fstat(&stream)?;
    let is_device = FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice;
    if !is_device || status.st_rdev != makedev(1, 3) {
        return Ok(stream);
    }
    own(fcntl_getfl(&stream)? & OFlags::RWMODE)
}

/// On a file system that nobody else sees, and that goes with it.
fn own(access: OFlags) -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    mkdirat(&mount, "dev", Mode::from_raw_mode(0o755))?;
    let device = (FileType::CharacterDevice, makedev(1, 3));
    mknodat(&mount, NULL, device.0, Mode::from_raw_mode(0o666), device.1)?;
    let flags = access | OFlags::CLOEXEC;
    Ok(openat(&mount, NULL, flags, Mode::empty())?)
}
