//! Attributes of mounts: `mount_setattr(2)`, which has no safe wrapper.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::CWD;
use rustix::io::{Errno, Result};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::path::Arg;

/// `struct mount_attr` of the kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountAttr {
    /// Attributes that it gets.
    pub set: u64,
    /// Attributes that it loses, before it gets others.
    pub clear: u64,
    /// `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE`, `MS_UNBINDABLE`, or 0.
    pub propagation: u64,
    /// The descriptor of the user namespace that ids are mapped by, with [`IDMAP`](Self::IDMAP).
    pub userns: u64,
}

impl MountAttr {
    /// Nothing is written by it.
    pub const RDONLY: u64 = 0x1;
    /// No program gets rights by its file.
    pub const NOSUID: u64 = 0x2;
    /// No device is opened by it.
    pub const NODEV: u64 = 0x4;
    /// Nothing is executed from it.
    pub const NOEXEC: u64 = 0x8;
    /// All of the ways in which times of access are kept.
    pub const ATIME: u64 = 0x70;
    /// Times of access are not kept.
    pub const NOATIME: u64 = 0x10;
    /// Every access is noted.
    pub const STRICTATIME: u64 = 0x20;
    /// Directories' times of access are not kept.
    pub const NODIRATIME: u64 = 0x80;
    /// Ids are mapped.
    pub const IDMAP: u64 = 0x10_0000;
    /// Links are not followed.
    pub const NOSYMFOLLOW: u64 = 0x20_0000;

    /// A change of how mounts propagate, alone.
    pub fn propagation(flag: u64) -> Self {
        Self {
            propagation: flag,
            ..Self::default()
        }
    }

    /// Whether it takes away from a mount what the kernel would lock for users that are not the host's.
    pub fn unlocks(&self, mount: impl AsFd) -> Result<bool> {
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

    /// Whether nothing changes.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Changes the mount itself behind a descriptor, or all below it as well.
pub fn set_mount_attributes(
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
    if result == 0 {
        return Ok(());
    }
    // SAFETY: every thread has its errno.
    Err(Errno::from_raw_os_error(unsafe {
        *libc::__errno_location()
    }))
}

/// The file or directory itself, without what is mounted below it, by a mount that nobody else has.
pub fn detached(path: impl Arg) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, path, flags)
}

/// The same, by which nobody can write to it, whoever comes to hold it: it only names the file, and the mount is in no
/// namespace any more. One that is could be made writable by root of any user namespace.
pub fn detached_read_only(path: impl Arg) -> Result<OwnedFd> {
    let tree = detached(path)?;
    let attr = MountAttr {
        set: MountAttr::RDONLY,
        ..MountAttr::default()
    };
    set_mount_attributes(tree.as_fd(), false, &attr)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(&tree, c"", flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_only_cannot_be_made_writable_again() {
        orlop_testkit::skip_unless!(orlop_testkit::machine::is_root());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program");
        std::fs::write(&path, "as it is").unwrap();
        let file = detached_read_only(&path).unwrap();
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        assert_eq!(std::fs::read(&again).unwrap(), b"as it is");
        let write = || std::fs::File::options().write(true).open(&again);
        assert_eq!(write().unwrap_err().raw_os_error(), Some(libc::EROFS));
        let attr = MountAttr {
            clear: MountAttr::RDONLY,
            ..MountAttr::default()
        };
        let changed = set_mount_attributes(file.as_fd(), false, &attr);
        assert_eq!(changed, Err(Errno::INVAL));
        assert_eq!(write().unwrap_err().raw_os_error(), Some(libc::EROFS));
    }
}
