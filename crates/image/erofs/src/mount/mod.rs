//! Mounts of images, detached: each lives as long as its descriptor, or until it is attached somewhere.

mod loop_device;

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};

/// Mounts the image in a file, for reading. Set-user-ID programs and devices of it work, as they do in
/// layers that are directories. Blocks.
///
/// Kernels since 6.12 read the file themselves, if its file system lets them; else it is behind a loop
/// device, which ends with the mount. With a label, all files have that SELinux context.
pub fn mount(image: BorrowedFd<'_>, label: Option<&str>) -> io::Result<OwnedFd> {
    match mount_file(image, label) {
        Err(error) if error.raw_os_error() == Some(Errno::NOTBLK.raw_os_error()) => {
            mount_on_loop(image, label)
        }
        mounted => mounted,
    }
}

/// Mounts the image in a file that the kernel reads itself. Fails with `ENOTBLK` where it cannot.
pub fn mount_file(image: BorrowedFd<'_>, label: Option<&str>) -> io::Result<OwnedFd> {
    // The name is resolved while this call lasts.
    let name = format!("/proc/self/fd/{}", image.as_raw_fd());
    Ok(mount_source(name, label)?)
}

/// Mounts the image in a file that is behind a loop device.
pub fn mount_on_loop(image: BorrowedFd<'_>, label: Option<&str>) -> io::Result<OwnedFd> {
    let device = loop_device::attach(image)?;
    // The device is held until the mount holds it: nobody else would.
    Ok(mount_source(&device.path, label)?)
}

fn mount_source(source: impl AsRef<Path>, label: Option<&str>) -> rustix::io::Result<OwnedFd> {
    let fs = fsopen("erofs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(fs.as_fd(), "source", source.as_ref())?;
    // Else a device that cannot be written is refused.
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
