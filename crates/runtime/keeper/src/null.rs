//! A null device of a container's own.
//!
//! Runtimes make a container's standard streams its user's (`fchown`). With the node's own
//! `/dev/null` among them (crun does not look), a tenant would own the device of everybody.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, chmodat, chownat, fcntl_getfl, fstat, makedev, mkdirat,
    mknodat, open, openat,
};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{Gid, Uid};

/// An input that is at its end.
pub(crate) fn nothing() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(open("/dev/null", flags, Mode::empty())?)
}

/// Where programs know it to be.
const NULL: &str = "dev/null";

/// A file system that nobody else sees, made when it is first needed: to make one takes the kernel
/// longer than all else that a command needs of the keeper.
#[derive(Debug, Default)]
pub(crate) struct Nulls(Option<OwnedFd>);

impl Nulls {
    /// The same stream, or one of its own where it is the null device.
    pub(crate) fn not_the_nodes(&mut self, stream: OwnedFd) -> io::Result<OwnedFd> {
        let status = fstat(&stream)?;
        let is_device = FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice;
        if !is_device || status.st_rdev != makedev(1, 3) {
            return Ok(stream);
        }
        self.own(fcntl_getfl(&stream)? & OFlags::RWMODE)
    }

    /// The pod's device, as a device is at first: whoever has had it may have changed its owner and mode,
    /// which is the pod's own affair for those who have it still.
    fn own(&mut self, access: OFlags) -> io::Result<OwnedFd> {
        let mount = match &self.0 {
            Some(mount) => mount,
            None => self.0.insert(mount()?),
        };
        let flags = AtFlags::empty();
        chownat(mount, NULL, Some(Uid::ROOT), Some(Gid::ROOT), flags)?;
        chmodat(mount, NULL, Mode::from_raw_mode(0o666), flags)?;
        Ok(openat(
            mount,
            NULL,
            access | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }
}

fn mount() -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    mkdirat(&mount, "dev", Mode::from_raw_mode(0o755))?;
    let device = (FileType::CharacterDevice, makedev(1, 3));
    mknodat(&mount, NULL, device.0, Mode::from_raw_mode(0o666), device.1)?;
    Ok(mount)
}
