//! A null device of the pod's own.
//!
//! Runtimes change the owner of a container's standard streams to the container's user (`fchown`). If one of them is
//! the node's `/dev/null` (crun does not check), a tenant would own the device of the whole node.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, chmodat, chownat, fcntl_getfl, fstat, makedev, mkdirat,
    mknodat, open, openat,
};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{Gid, Uid};

/// Returns an input at its end.
pub(crate) fn nothing() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(open("/dev/null", flags, Mode::empty())?)
}

/// Path of the device in the file system.
const NULL: &str = "dev/null";

/// A private file system, made when it is first needed: creating one takes the kernel longer than everything else the
/// keeper does for a command.
#[derive(Debug, Default)]
pub(crate) struct Nulls(Option<OwnedFd>);

impl Nulls {
    /// Returns the same stream, or the pod's own device if the stream is the node's null device.
    pub(crate) fn not_the_nodes(&mut self, stream: OwnedFd) -> io::Result<OwnedFd> {
        let status = fstat(&stream)?;
        let is_device = FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice;
        if !is_device || status.st_rdev != makedev(1, 3) {
            return Ok(stream);
        }
        self.own(fcntl_getfl(&stream)? & OFlags::RWMODE)
    }

    /// Opens the pod's device with its initial owner and mode. An earlier user may have changed them, which affects
    /// only the pod's own processes.
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
