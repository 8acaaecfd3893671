//! Detached mounts of images. Each exists as long as its descriptor, or until it is attached to a path.

mod loop_device;

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};

/// Mounts the image in a file read-only. Set-user-ID programs and devices in it work, as in layers that are
/// directories. Blocks.
///
/// Kernels since 6.12 read the file directly, if its file system allows that. Otherwise a loop device is used, which
/// disappears with the mount. With a label, all files have that SELinux context.
pub fn mount(image: BorrowedFd<'_>, label: Option<&str>) -> io::Result<OwnedFd> {
    match mount_file(image, label) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTBLK.raw_os_error()) => {
            mount_on_loop(image, label)
        }
        mounted => mounted,
    }
}

/// Mounts the image in a file that the kernel reads directly. Fails with `ENOTBLK` if it cannot.
pub fn mount_file(image: BorrowedFd<'_>, label: Option<&str>) -> io::Result<OwnedFd> {
    // The path must be valid during this call only.
    let name = format!("/proc/self/fd/{}", image.as_raw_fd());
    Ok(mount_source(name, label)?)
}

/// Mounts the image in a file through a loop device.
pub fn mount_on_loop(image: BorrowedFd<'_>, label: Option<&str>) -> io::Result<OwnedFd> {
    let device = loop_device::attach(image)?;
    // The device stays open until the mount uses it, because nothing else keeps it.
    Ok(mount_source(&device.path, label)?)
}

fn mount_source(source: impl AsRef<Path>, label: Option<&str>) -> rustix::io::Result<OwnedFd> {
    let fs = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(fs.as_fd(), "source", source.as_ref())?;
    // Without this, a read-only device is refused.
    fsconfig_set_flag(fs.as_fd(), "ro")?;
    if let Some(label) = label {
        fsconfig_set_string(fs.as_fd(), "context", label)?;
    }
    fsconfig_create(fs.as_fd())?;
    fsmount(
        fs.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_RDONLY,
    )
}
