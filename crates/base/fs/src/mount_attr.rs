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
    /// Attributes to set.
    pub set: u64,
    /// Attributes to clear, before others are set.
    pub clear: u64,
    /// `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE`, `MS_UNBINDABLE`, or 0.
    pub propagation: u64,
    /// The descriptor of the user namespace for the ID mapping, with [`IDMAP`](Self::IDMAP).
    pub userns: u64,
}

impl MountAttr {
    /// The mount is read-only.
    pub const RDONLY: u64 = 0x1;
    /// Set-user-ID bits and file capabilities have no effect.
    pub const NOSUID: u64 = 0x2;
    /// Devices cannot be opened.
    pub const NODEV: u64 = 0x4;
    /// Programs cannot be executed.
    pub const NOEXEC: u64 = 0x8;
    /// The mask of all access time modes.
    pub const ATIME: u64 = 0x70;
    /// Access times are not updated.
    pub const NOATIME: u64 = 0x10;
    /// Every access updates the access time.
    pub const STRICTATIME: u64 = 0x20;
    /// Access times of directories are not updated.
    pub const NODIRATIME: u64 = 0x80;
    /// IDs are mapped.
    pub const IDMAP: u64 = 0x10_0000;
    /// Symlinks are not followed.
    pub const NOSYMFOLLOW: u64 = 0x20_0000;

    /// Returns a change of the propagation only.
    pub fn propagation(flag: u64) -> Self {
        Self {
            propagation: flag,
            ..Self::default()
        }
    }

    /// Returns whether it clears a flag that the kernel would lock in another user namespace.
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

    /// Returns whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// Changes the mount behind a descriptor; with `recursive` also all mounts below it.
pub fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    recursive: bool,
    attr: &MountAttr,
) -> Result<()> {
    const AT_RECURSIVE: libc::c_int = 0x8000;
    let flags = libc::AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    // SAFETY: the path is empty and terminated, the structure lives across the call and has the
    // given size.
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

/// Makes a private detached mount of a file or directory, without the mounts below it.
pub fn detached(path: impl Arg) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, path, flags)
}

/// Makes a private detached mount that is read-only for every holder: the descriptor is `O_PATH`, and the mount is in
/// no namespace. Root of a user namespace could make a mount in a namespace writable.
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
