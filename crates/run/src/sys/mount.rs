//! `mount_setattr(2)`.
#![allow(unsafe_code, reason = "mount_setattr is wrapped nowhere")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Result;

use super::clone::last;

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MountAttr {
    pub(crate) set: u64,
    pub(crate) clear: u64,
    /// `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE`, `MS_UNBINDABLE`, or 0.
    pub(crate) propagation: u64,
    pub(crate) userns: u64,
}

impl MountAttr {
    pub(crate) const RDONLY: u64 = 0x1;
    pub(crate) const NOSUID: u64 = 0x2;
    pub(crate) const NODEV: u64 = 0x4;
    pub(crate) const NOEXEC: u64 = 0x8;
    /// All of the ways in which times of access are kept.
    pub(crate) const ATIME: u64 = 0x70;
    pub(crate) const NOATIME: u64 = 0x10;
    pub(crate) const STRICTATIME: u64 = 0x20;
    pub(crate) const NODIRATIME: u64 = 0x80;
    pub(crate) const IDMAP: u64 = 0x10_0000;
    pub(crate) const NOSYMFOLLOW: u64 = 0x20_0000;

    pub(crate) fn propagation(flag: u64) -> Self {
        Self {
            propagation: flag,
            ..Self::default()
        }
    }

    /// Whether it takes away from a mount what the kernel would lock for users that are not the host's.
    pub(crate) fn unlocks(&self, mount: impl AsFd) -> Result<bool> {
        use rustix::fs::StatVfsMountFlags as Flags;
        let has = rustix::fs::fstatvfs(mount)?.f_flag;
        let lockable = [
            (Flags::RDONLY, Self::RDONLY),
            (Flags::NOSUID, Self::NOSUID),
            (Flags::NODEV, Self::NODEV),
            (Flags::NOEXEC, Self::NOEXEC),
        ];
        let taken = lockable
            .into_iter()
            .any(|(flag, attr)| has.contains(flag) && self.clear & !self.set & attr != 0);
        let times = match () {
            () if has.contains(Flags::NOATIME) => Self::NOATIME,
            () if has.contains(Flags::RELATIME) => 0,
            () => Self::STRICTATIME,
        };
        let other_times = self.clear & Self::ATIME != 0 && self.set & Self::ATIME != times;
        Ok(taken || other_times)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Changes the mount itself behind a descriptor, or all below it as well.
pub(crate) fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    recursive: bool,
    attr: &MountAttr,
) -> Result<()> {
    const AT_RECURSIVE: libc::c_int = 0x8000;
    let flags = libc::AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: the path is empty and terminated, the structure lives across the call and has the
    // size that is told.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(last()) }
}
